//! The evaluator: walks a plan, and counts the cost of every step as cel-go's cost tracker does (S-DRA-118).
//!
//! A failed step costs as much as one that succeeds, because `&&` and `||` may absorb the failure. The macros cost what
//! upstream's expansions of them cost; `comprehend` has the figures.

use std::ops::Deref;

use smallvec::SmallVec;

use super::cost::{COST_LIMIT, Cost, LIST_COST, MAP_COST};
use super::equality::Comparisons;
use super::error::EvalError;
use super::plan::{Attribute, Call, Node, Qualifier, QualifierKey, Root, Search, SearchKind};
use super::value::{Key, Value, whole};

/// Limit of the elements and bytes that calls read and make, which costs do not count everywhere.
const WORK_LIMIT: usize = 1 << 28;

/// A value that is borrowed from the plan or the device, or made by the evaluation.
#[derive(Clone, Debug)]
pub(crate) enum Held<'a> {
    Borrowed(&'a Value),
    Owned(Value),
}

impl Held<'_> {
    pub(crate) fn into_owned(self) -> Value {
        match self {
            Held::Borrowed(value) => value.clone(),
            Held::Owned(value) => value,
        }
    }
}

impl Deref for Held<'_> {
    type Target = Value;

    fn deref(&self) -> &Value {
        match self {
            Held::Borrowed(value) => value,
            Held::Owned(value) => value,
        }
    }
}

/// The result of a step.
pub(crate) type Step<'a> = Result<Held<'a>, EvalError>;

/// A variable of a macro.
#[derive(Clone, Debug)]
pub(crate) enum Slot<'a> {
    Empty,
    Known(Step<'a>),
    /// A variable that is evaluated when it is first read.
    Waiting(&'a Node),
    /// The value of an optional that is evaluated when it is first read.
    WaitingValue(&'a Node),
}

/// The state of an evaluation.
pub(crate) struct Machine<'a> {
    device: &'a Value,
    pub(crate) slots: Vec<Slot<'a>>,
    pub(crate) cost: u64,
    work: usize,
}

/// The value of an attribute whose selections may be optional.
enum Selected<'a> {
    Plain(Held<'a>),
    /// An optional with a value.
    Present(Held<'a>),
    Absent,
}

impl<'a> Machine<'a> {
    /// An evaluation on a device, with a number of variables.
    pub(crate) fn new(device: &'a Value, n_slots: usize) -> Machine<'a> {
        Machine { device, slots: vec![Slot::Empty; n_slots], cost: 0, work: 0 }
    }

    pub(crate) fn charge(&mut self, cost: u64) -> Result<(), EvalError> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > COST_LIMIT { Err(EvalError::CostLimit) } else { Ok(()) }
    }

    /// Evaluates a part of an expression.
    pub(crate) fn evaluate(&mut self, node: &'a Node) -> Step<'a> {
        match node {
            Node::Constant(value) => Ok(Held::Borrowed(value)),
            Node::Folded(value, cost) => {
                self.charge(*cost)?;
                Ok(Held::Borrowed(value))
            }
            Node::Attribute(attribute) => {
                let selected = self.observed(attribute)?;
                Ok(selected.into_held())
            }
            Node::Has(attribute) => self.has(attribute),
            Node::And(terms) => self.terms(terms, false),
            Node::Or(terms) => self.terms(terms, true),
            Node::Equality { sides, is_negated } => self.equality(sides, *is_negated),
            Node::InConstant { value, list } => self.in_constant(value, list),
            Node::OptionalOr { sides, is_unwrapped } => self.optional_or(sides, *is_unwrapped),
            Node::Search(search) => self.search(search),
            Node::Call(call) => self.call(call),
            Node::List(elements) => {
                let list = self.list(elements);
                self.charge(LIST_COST)?;
                list
            }
            Node::Map(entries) => {
                let map = self.map(entries);
                self.charge(MAP_COST)?;
                map
            }
            Node::Fold(fold) => self.fold(fold),
            Node::Bind { slot, value, body } => {
                self.set(*slot, Slot::Waiting(value));
                self.evaluate(body)
            }
            Node::OptionalMap { slot, optional, body, is_flat } => {
                self.optional_map(*slot, optional, body, *is_flat)
            }
        }
    }

    pub(crate) fn set(&mut self, slot: usize, content: Slot<'a>) {
        if let Some(place) = self.slots.get_mut(slot) {
            *place = content;
        }
    }

    fn variable(&mut self, slot: usize) -> Step<'a> {
        match self.slots.get(slot) {
            Some(Slot::Known(value)) => value.clone(),
            Some(Slot::Waiting(node)) => {
                let value = self.evaluate(node);
                self.set(slot, Slot::Known(value.clone()));
                value
            }
            Some(Slot::WaitingValue(node)) => {
                let optional = strict(self.evaluate(node))?;
                self.charge(1)?;
                let value = optional.and_then(|optional| match unwrapped(optional) {
                    Selected::Present(value) => Ok(value),
                    _ => Err(EvalError::failed("optional.none() dereference")),
                });
                self.set(slot, Slot::Known(value.clone()));
                value
            }
            Some(Slot::Empty) | None => Err(EvalError::Internal("a variable without a value")),
        }
    }

    /// `&&` and `||`: a term that decides the result absorbs the errors of others, in both orders.
    fn terms(&mut self, terms: &'a [Node], decides: bool) -> Step<'a> {
        let mut error = None;
        for term in terms {
            match self.evaluate(term) {
                Ok(value) => match *value {
                    Value::Bool(value) if value == decides => {
                        return Ok(held(Value::Bool(decides)));
                    }
                    Value::Bool(_) => {}
                    _ => error = error.or(Some(EvalError::no_overload())),
                },
                Err(fatal) if fatal.is_fatal() => return Err(fatal),
                Err(other) => error = error.or(Some(other)),
            }
        }
        error.map_or(Ok(held(Value::Bool(!decides))), Err)
    }

    fn equality(&mut self, sides: &'a [Node; 2], is_negated: bool) -> Step<'a> {
        let left = strict(self.evaluate(&sides[0]))?;
        let right = strict(self.evaluate(&sides[1]))?;
        let given = [left.as_deref().ok(), right.as_deref().ok()];
        let cost = match given[0] {
            Some(value) if !is_negated && is_kubernetes(value) => 1,
            _ => Cost::Shorter.of(&given, None)?,
        };
        self.charge(cost)?;
        let (left, right) = (left?, right?);
        let result = match Comparisons::new().equal(&left, &right) {
            Ok(is_equal) => is_equal != is_negated,
            // A comparison that fails is not equal.
            Err(error) if !is_negated || error.is_fatal() => return Err(error),
            Err(_) => true,
        };
        Ok(held(Value::Bool(result)))
    }

    fn in_constant(&mut self, value: &'a Node, list: &[Value]) -> Step<'a> {
        let value = self.evaluate(value)?;
        if matches!(*value, Value::Semver(_) | Value::Bytes(_)) {
            return Err(EvalError::Internal("hash of unhashable type"));
        }
        Ok(held(Value::Bool(Comparisons::new().contain(list, &value)?)))
    }

    fn optional_or(&mut self, sides: &'a [Node; 2], is_unwrapped: bool) -> Step<'a> {
        let [optional, other] = sides;
        let selected = match optional {
            Node::Attribute(attribute) => self.observed(attribute)?,
            node => Selected::Plain(self.evaluate(node)?),
        };
        match selected {
            Selected::Present(value) if is_unwrapped => Ok(value),
            Selected::Present(value) => Ok(held(Value::some(value.into_owned()))),
            Selected::Absent => self.evaluate(other),
            Selected::Plain(value) => match &*value {
                Value::Optional(Some(inner)) if is_unwrapped => Ok(held((**inner).clone())),
                Value::Optional(Some(_)) => Ok(value),
                Value::Optional(None) => self.evaluate(other),
                _ => Err(EvalError::no_overload()),
            },
        }
    }

    fn call(&mut self, call: &'a Call) -> Step<'a> {
        let mut args: SmallVec<[Step<'a>; 3]> = SmallVec::new();
        for arg in &call.args {
            let arg = strict(self.evaluate(arg))?;
            let is_last = args.len() + 1 == call.args.len();
            if call.exits_early
                && !is_last
                && let Err(error) = arg
            {
                return Err(error);
            }
            args.push(arg);
        }
        let result = run(call, &args);
        if let Err(fatal) = &result
            && fatal.is_fatal()
        {
            return Err(fatal.clone());
        }
        let given: SmallVec<[Option<&Value>; 3]> =
            args.iter().map(|arg| arg.as_deref().ok()).collect();
        let cost = call.cost.of(&given, result.as_ref().ok())?;
        self.charge(cost)?;
        self.work(given.iter().copied().flatten().chain(result.as_ref().ok()))?;
        result.map(Held::Owned)
    }

    /// Counts the elements and bytes of what a call reads and makes.
    fn work<'v>(&mut self, values: impl Iterator<Item = &'v Value>) -> Result<(), EvalError> {
        for value in values {
            self.work += match value {
                Value::List(list) => list.len(),
                Value::String(text) => text.len(),
                Value::Bytes(bytes) => bytes.len(),
                _ => 0,
            };
        }
        if self.work > WORK_LIMIT { Err(EvalError::Internal("too much work")) } else { Ok(()) }
    }

    fn search(&mut self, search: &'a Search) -> Step<'a> {
        let text = self.evaluate(&search.text)?;
        let limit = search.limit.as_ref().map(|limit| strict(self.evaluate(limit))).transpose()?;
        let result = match limit.transpose() {
            Ok(limit) => find(search, &text, limit.as_deref()),
            Err(error) => Err(error),
        };
        let given = [Some(&*text), Some(&search.pattern)];
        self.charge(search.cost.of(&given, None)?)?;
        result.map(Held::Owned)
    }

    fn list(&mut self, elements: &'a [(Node, bool)]) -> Step<'a> {
        let mut values = Vec::with_capacity(elements.len());
        for (element, is_optional) in elements {
            let value = self.evaluate(element)?.into_owned();
            match value {
                Value::Optional(None) if *is_optional => {}
                Value::Optional(Some(inner)) if *is_optional => values.push((*inner).clone()),
                _ if *is_optional => {
                    return Err(EvalError::failed("cannot initialize optional list element"));
                }
                value => values.push(value),
            }
        }
        Ok(held(Value::list(values)))
    }

    fn map(&mut self, entries: &'a [(Node, Node, bool)]) -> Step<'a> {
        let mut map = std::collections::BTreeMap::new();
        for (key, value, is_optional) in entries {
            let key = self.evaluate(key)?;
            let value = self.evaluate(value)?.into_owned();
            let key = key.to_key().ok_or(EvalError::failed("unsupported key type"))?;
            let value = match value {
                Value::Optional(None) if *is_optional => {
                    map.remove(&key);
                    continue;
                }
                Value::Optional(Some(inner)) if *is_optional => (*inner).clone(),
                _ if *is_optional => {
                    return Err(EvalError::failed("cannot initialize optional entry"));
                }
                value => value,
            };
            map.insert(key, value);
        }
        Ok(held(Value::map(map)))
    }

    /// `optMap` and `optFlatMap` cost what their expansion does: the optional twice, and the calls around the body.
    fn optional_map(
        &mut self,
        slot: usize,
        optional: &'a Node,
        body: &'a Node,
        is_flat: bool,
    ) -> Step<'a> {
        let has_value = strict(self.evaluate(optional))?;
        self.charge(1)?;
        match &*has_value? {
            Value::Optional(Some(_)) => {}
            Value::Optional(None) => {
                self.charge(1)?;
                return Ok(held(Value::Optional(None)));
            }
            _ => return Err(EvalError::no_overload()),
        }
        self.set(slot, Slot::WaitingValue(optional));
        let result = self.evaluate(body);
        if is_flat {
            return result;
        }
        let result = strict(result)?;
        self.charge(1)?;
        Ok(held(Value::some(result?.into_owned())))
    }

    /// Evaluates an attribute on its own, which costs 1 unless it starts with a conditional.
    fn observed(&mut self, attribute: &'a Attribute) -> Result<Selected<'a>, EvalError> {
        let selected = strict(self.selected(attribute))?;
        if !matches!(attribute.root, Root::Conditional(_)) {
            self.charge(1)?;
        }
        selected
    }

    /// Evaluates an attribute as a branch of a conditional or as an index: its own cost does not count there.
    fn unobserved(&mut self, node: &'a Node) -> Step<'a> {
        match node {
            Node::Attribute(attribute) => Ok(self.selected(attribute)?.into_held()),
            node => self.evaluate(node),
        }
    }

    fn root(&mut self, root: &'a Root) -> Step<'a> {
        match root {
            Root::Device => Ok(Held::Borrowed(self.device)),
            Root::Variable(slot) => self.variable(*slot),
            Root::Value(node) => self.evaluate(node),
            Root::Conditional([condition, yes, no]) => match *self.evaluate(condition)? {
                Value::Bool(true) => self.unobserved(yes),
                Value::Bool(false) => self.unobserved(no),
                _ => Err(EvalError::no_overload()),
            },
        }
    }

    fn selected(&mut self, attribute: &'a Attribute) -> Result<Selected<'a>, EvalError> {
        let root = self.root(&attribute.root)?;
        self.select(root, &attribute.qualifiers)
    }

    fn select(
        &mut self,
        root: Held<'a>,
        qualifiers: &'a [Qualifier],
    ) -> Result<Selected<'a>, EvalError> {
        if qualifiers.is_empty() {
            return Ok(Selected::Plain(root));
        }
        let (mut value, mut is_optional) = match unwrapped(root) {
            Selected::Plain(value) => (value, false),
            Selected::Present(value) => (value, true),
            Selected::Absent => return Ok(Selected::Absent),
        };
        for qualifier in qualifiers {
            is_optional |= qualifier.is_optional;
            match self.qualify(value, &qualifier.key, is_optional)? {
                Some(found) => value = found,
                None => return Ok(Selected::Absent),
            }
        }
        Ok(if is_optional { Selected::Present(value) } else { Selected::Plain(value) })
    }

    /// Selects one part of a value. It costs 1 where it is tried in any case, or where an optional one is found.
    fn qualify(
        &mut self,
        value: Held<'a>,
        key: &'a QualifierKey,
        is_optional: bool,
    ) -> Result<Option<Held<'a>>, EvalError> {
        let found = strict(self.found(value, key))?;
        if !is_optional || matches!(found, Ok(Ok(_))) {
            self.charge(1)?;
        }
        match found? {
            Ok(value) => Ok(Some(value)),
            Err(_) if is_optional => Ok(None),
            Err(missing) => Err(missing),
        }
    }

    /// The part that a key selects, or the error of a missing one.
    fn found(&mut self, value: Held<'a>, key: &'a QualifierKey) -> Result<Step<'a>, EvalError> {
        match key {
            QualifierKey::Exact(key) => {
                let is_exact = matches!(key, Key::String(_) | Key::Bool(_));
                if !is_exact || !matches!(*value, Value::Map(_)) {
                    return lookup(value, &key.to_value());
                }
                let found = part(value, |map| match map {
                    Value::Map(map) => map.get_exact(key),
                    _ => None,
                });
                Ok(found.ok_or_else(|| missing_key(&key.to_value())))
            }
            QualifierKey::Computed(node) => {
                let key = self.unobserved(node)?;
                lookup(value, &key)
            }
        }
    }

    /// `has()` costs what its selections cost, and nothing by itself.
    fn has(&mut self, attribute: &'a Attribute) -> Step<'a> {
        let found = strict(self.is_present(attribute))?;
        if matches!(attribute.root, Root::Conditional(_)) {
            self.cost = self.cost.saturating_sub(1);
        }
        Ok(held(Value::Bool(found?)))
    }

    fn is_present(&mut self, attribute: &'a Attribute) -> Result<bool, EvalError> {
        let Some((last, before)) = attribute.qualifiers.split_last() else { return Ok(true) };
        let root = self.root(&attribute.root)?;
        let (value, is_optional) = match self.select(root, before)? {
            Selected::Plain(value) => match unwrapped(value) {
                Selected::Plain(value) => (value, false),
                Selected::Present(value) => (value, true),
                Selected::Absent => return Ok(false),
            },
            Selected::Present(value) => (value, true),
            Selected::Absent => return Ok(false),
        };
        let found = strict(self.found(value, &last.key))?;
        if !is_optional || matches!(found, Ok(Ok(_))) {
            self.charge(1)?;
        }
        Ok(found?.is_ok())
    }
}

impl<'a> Selected<'a> {
    fn into_held(self) -> Held<'a> {
        match self {
            Selected::Plain(value) => value,
            Selected::Present(value) => held(Value::some(value.into_owned())),
            Selected::Absent => held(Value::Optional(None)),
        }
    }
}

pub(crate) fn held<'a>(value: Value) -> Held<'a> {
    Held::Owned(value)
}

/// Keeps an error for later, unless it ends the evaluation.
pub(crate) fn strict<T>(result: Result<T, EvalError>) -> Result<Result<T, EvalError>, EvalError> {
    match result {
        Err(fatal) if fatal.is_fatal() => Err(fatal),
        other => Ok(other),
    }
}

fn run(call: &Call, args: &[Step<'_>]) -> Result<Value, EvalError> {
    let mut values: SmallVec<[&Value; 3]> = SmallVec::new();
    for arg in args {
        match arg {
            Ok(value) => values.push(value),
            Err(error) => return Err(error.clone()),
        }
    }
    (call.function.run)(&values)
}

fn find(search: &Search, text: &Value, limit: Option<&Value>) -> Result<Value, EvalError> {
    let limit = match limit {
        None => usize::MAX,
        Some(Value::Int(limit)) => usize::try_from(*limit).unwrap_or(usize::MAX),
        Some(_) => return Err(EvalError::no_overload()),
    };
    let Value::String(text) = text else { return Err(EvalError::no_overload()) };
    Ok(match search.kind {
        SearchKind::Matches => Value::Bool(search.regex.is_match(text)),
        SearchKind::Find => {
            Value::string(search.regex.find(text).map_or("", |found| found.as_str()))
        }
        SearchKind::FindAll => {
            let found = search.regex.find_iter(text).take(limit);
            Value::list(found.map(|found| Value::string(found.as_str())).collect::<Vec<Value>>())
        }
    })
}

fn is_kubernetes(value: &Value) -> bool {
    matches!(
        value,
        Value::Quantity(_)
            | Value::Semver(_)
            | Value::Ip(_)
            | Value::Cidr(_)
            | Value::Url(_)
            | Value::Format(_)
    )
}

/// The content of an optional value.
fn unwrapped(value: Held<'_>) -> Selected<'_> {
    match &value {
        Held::Borrowed(Value::Optional(Some(inner))) => Selected::Present(Held::Borrowed(inner)),
        Held::Owned(Value::Optional(Some(inner))) => Selected::Present(held((**inner).clone())),
        Held::Borrowed(Value::Optional(None)) | Held::Owned(Value::Optional(None)) => {
            Selected::Absent
        }
        _ => Selected::Plain(value),
    }
}

/// A part of a value, borrowed where the value is.
fn part<'a>(
    value: Held<'a>,
    find: impl for<'v> Fn(&'v Value) -> Option<&'v Value>,
) -> Option<Held<'a>> {
    match value {
        Held::Borrowed(value) => find(value).map(Held::Borrowed),
        Held::Owned(value) => find(&value).cloned().map(Held::Owned),
    }
}

fn missing_key(key: &Value) -> EvalError {
    EvalError::NoSuchKey(key.describe())
}

/// The entry or element of a key, or the error of a missing one. A key that cannot be one is an error of its own.
fn lookup<'a>(value: Held<'a>, key: &Value) -> Result<Step<'a>, EvalError> {
    if key.to_key().is_none() && !matches!(key, Value::Double(_)) {
        return Err(EvalError::of(format!("invalid qualifier type: {}", key.type_name())));
    }
    if !matches!(*value, Value::List(_)) {
        let found = part(value, |map| match map {
            Value::Map(map) => map.get(key),
            _ => None,
        });
        return Ok(found.ok_or_else(|| missing_key(key)));
    }
    let position = match key {
        Value::Double(double) => whole(*double).ok_or_else(|| unsupported_index(key))?,
        other => other.clone(),
    };
    let position = match position {
        Value::Int(position) => usize::try_from(position).ok(),
        Value::Uint(position) => usize::try_from(position).ok(),
        _ => return Err(unsupported_index(key)),
    };
    let found = part(value, |list| match list {
        Value::List(list) => list.get(position?),
        _ => None,
    });
    Ok(found.ok_or_else(|| EvalError::of(format!("index out of bounds: {}", key.describe()))))
}

fn unsupported_index(key: &Value) -> EvalError {
    EvalError::of(format!("unsupported index type '{}' in list", key.type_name()))
}
