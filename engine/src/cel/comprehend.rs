//! Macros at run time, with the costs of their expansions (S-DRA-114, S-DRA-118).
//!
//! Upstream expands a macro into a loop over an accumulator `@result`. Reading `@result` costs 1, and so does a call.
//! A round of `all` costs 2 for the loop's condition `@not_strictly_false(@result)` and 1 for `@result && p`; of
//! `exists` 3 and 1; of `exists_one` 2 where the element counts; of `map` 2 for `@result + [x]`, and the cost of a list
//! unless the result is constant. Reading the result costs 1 in the end, and comparing it with 1 another.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::cost::LIST_COST;
use super::error::EvalError;
use super::evaluate::{Held, Machine, Slot, Step as Stepped, held, strict};
use super::plan::{Fold, Node, Slots, Step};
use super::value::{Key, Map, Value};

/// Range of a macro: the list or map that it walks over.
enum Range {
    List(Arc<[Value]>),
    Map(Arc<Map>),
}

impl<'a> Machine<'a> {
    /// Evaluates a macro over a list or a map. Maps are walked in the order of their keys.
    pub(crate) fn fold(&mut self, fold: &'a Fold) -> Stepped<'a> {
        let range = match &*self.evaluate(&fold.range)? {
            Value::List(list) => Range::List(Arc::clone(list)),
            Value::Map(map) => Range::Map(Arc::clone(map)),
            _ => return Err(EvalError::failed("expected iterable type")),
        };
        match &fold.step {
            Step::All(condition) => self.quantify(fold.slots, &range, condition, false),
            Step::Exists(condition) => self.quantify(fold.slots, &range, condition, true),
            Step::ExistsOne(condition) => self.exists_one(fold.slots, &range, condition),
            Step::Map(filter, body) => {
                self.collect(fold.slots, &range, filter.as_ref(), Some(body))
            }
            Step::Filter(condition) => self.collect(fold.slots, &range, Some(condition), None),
            Step::TransformMap(filter, body) => {
                self.transform(fold.slots, &range, filter.as_ref(), body, false)
            }
            Step::TransformMapEntry(filter, body) => {
                self.transform(fold.slots, &range, filter.as_ref(), body, true)
            }
        }
    }

    /// Evaluates a round for each element, after setting the variables. A round that returns true ends the walk.
    fn each(
        &mut self,
        slots: Slots,
        range: &Range,
        mut round: impl FnMut(&mut Machine<'a>, &Value) -> Result<bool, EvalError>,
    ) -> Result<(), EvalError> {
        let mut next = |machine: &mut Machine<'a>, first: Value, second: &Value| {
            match slots {
                Slots::One(slot) => machine.set(slot, Slot::Known(Ok(held(first.clone())))),
                Slots::Two(one, two) => {
                    machine.set(one, Slot::Known(Ok(held(first.clone()))));
                    machine.set(two, Slot::Known(Ok(held(second.clone()))));
                }
            }
            round(machine, &first)
        };
        match range {
            Range::List(list) => {
                for (position, element) in list.iter().enumerate() {
                    let first = match slots {
                        Slots::One(_) => element.clone(),
                        Slots::Two(..) => Value::Int(i64::try_from(position).unwrap_or(i64::MAX)),
                    };
                    if next(self, first, element)? {
                        break;
                    }
                }
            }
            Range::Map(map) => {
                for (key, value) in &map.entries {
                    if next(self, key.to_value(), value)? {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// `all`, or `exists` if true decides. The walk ends when an element decides; errors before that are absorbed.
    fn quantify(
        &mut self,
        slots: Slots,
        range: &Range,
        condition: &'a Node,
        decides: bool,
    ) -> Stepped<'a> {
        let mut result: Stepped<'a> = Ok(held(Value::Bool(!decides)));
        let condition_cost = if decides { 3 } else { 2 };
        self.each(slots, range, |machine, _| {
            machine.charge(condition_cost)?;
            if matches!(result.as_deref(), Ok(Value::Bool(value)) if *value == decides) {
                return Ok(true);
            }
            machine.charge(1)?;
            let value = strict(machine.evaluate(condition))?;
            let is_decided =
                matches!(value.as_deref(), Ok(Value::Bool(value)) if *value == decides);
            if is_decided {
                result = Ok(held(Value::Bool(decides)));
            } else if result.is_ok() {
                result = match value.as_deref() {
                    Ok(Value::Bool(_)) => Ok(held(Value::Bool(!decides))),
                    Ok(_) => Err(EvalError::no_overload()),
                    Err(error) => Err(error.clone()),
                };
            }
            Ok(false)
        })?;
        self.charge(1)?;
        result
    }

    fn exists_one(&mut self, slots: Slots, range: &Range, condition: &'a Node) -> Stepped<'a> {
        let mut count: Result<i64, EvalError> = Ok(0);
        self.each(slots, range, |machine, _| {
            match machine.meets(condition)? {
                Ok(true) => {
                    machine.charge(2)?;
                    count = count.clone().map(|count| count + 1);
                }
                Ok(false) => {}
                Err(error) => count = Err(error),
            }
            Ok(false)
        })?;
        self.charge(2)?;
        count.map(|count| held(Value::Bool(count == 1)))
    }

    /// Whether an element meets a condition.
    fn meets(&mut self, condition: &'a Node) -> Result<Result<bool, EvalError>, EvalError> {
        let value = strict(self.evaluate(condition))?;
        Ok(value.and_then(|value| match *value {
            Value::Bool(value) => Ok(value),
            _ => Err(EvalError::no_overload()),
        }))
    }

    /// `map` with a body, and `filter` without.
    fn collect(
        &mut self,
        slots: Slots,
        range: &Range,
        filter: Option<&'a Node>,
        body: Option<&'a Node>,
    ) -> Stepped<'a> {
        let mut result: Result<Vec<Value>, EvalError> = Ok(Vec::new());
        let list_cost = if matches!(body, Some(Node::Constant(_))) { 0 } else { LIST_COST };
        self.each(slots, range, |machine, element| {
            if let Some(filter) = filter {
                match machine.meets(filter)? {
                    Ok(true) => {}
                    Ok(false) => return Ok(false),
                    Err(error) => {
                        result = Err(error);
                        return Ok(false);
                    }
                }
            }
            let value = match body {
                Some(body) => strict(machine.evaluate(body))?.map(Held::into_owned),
                None => {
                    machine.charge(1)?;
                    Ok(element.clone())
                }
            };
            machine.charge(2 + list_cost)?;
            if let Ok(values) = &mut result {
                match value {
                    Ok(value) => values.push(value),
                    Err(error) => result = Err(error),
                }
            }
            Ok(false)
        })?;
        self.charge(1)?;
        result.map(|values| held(Value::list(values)))
    }

    /// `transformMap`, or `transformMapEntry` if the body makes entries.
    fn transform(
        &mut self,
        slots: Slots,
        range: &Range,
        filter: Option<&'a Node>,
        body: &'a Node,
        makes_entries: bool,
    ) -> Stepped<'a> {
        let mut result: Result<BTreeMap<Key, Value>, EvalError> = Ok(BTreeMap::new());
        self.each(slots, range, |machine, first| {
            if let Some(filter) = filter {
                match machine.meets(filter)? {
                    Ok(true) => {}
                    Ok(false) => return Ok(false),
                    Err(error) => {
                        result = Err(error);
                        return Ok(false);
                    }
                }
            }
            // Reading `@result` costs 1. With three arguments a call ends at the first failure.
            machine.charge(1)?;
            if !makes_entries {
                if result.is_err() {
                    return Ok(false);
                }
                machine.charge(1)?;
            }
            let value = strict(machine.evaluate(body))?;
            machine.charge(1)?;
            insert(&mut result, first, value, makes_entries);
            Ok(false)
        })?;
        self.charge(1)?;
        result.map(|entries| held(Value::map(entries)))
    }
}

/// Adds the result of a round to a map; a key that is there already is an error.
fn insert(
    result: &mut Result<BTreeMap<Key, Value>, EvalError>,
    key: &Value,
    value: Result<Held<'_>, EvalError>,
    makes_entries: bool,
) {
    let Ok(entries) = result else { return };
    let added = value.and_then(|value| match (&*value, key.to_key()) {
        (Value::Map(map), _) if makes_entries => {
            Ok(map.entries.iter().map(|(key, value)| (key.clone(), value.clone())).collect())
        }
        (value, Some(key)) if !makes_entries => Ok(vec![(key, value.clone())]),
        _ => Err(EvalError::no_overload()),
    });
    match added {
        Ok(added) => {
            let added: Vec<(Key, Value)> = added;
            for (key, value) in added {
                if entries.contains_key(&key) {
                    let text =
                        format!("insert failed: key {} already exists", key.to_value().describe());
                    *result = Err(EvalError::of(text));
                    return;
                }
                entries.insert(key, value);
            }
        }
        Err(error) => *result = Err(error),
    }
}
