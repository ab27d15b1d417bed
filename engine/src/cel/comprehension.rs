//! Macros in the type checker: the types of their variables and results (S-DRA-114).

use super::checker::{Checker, Refusal, Typed};
use super::plan::{Call, Fold, Node, Root, Slots, Step};
use super::syntax::{Expr, Macro, MacroKind};
use super::token::Fault;
use super::types::Type;
use super::{checker, functions};

impl Checker {
    /// Checks and plans a macro.
    pub(crate) fn macro_call(&mut self, at: usize, parts: &Macro) -> Result<Typed, Refusal> {
        self.count_constructor(at)?;
        match parts.kind {
            MacroKind::Bind => self.bind(parts),
            MacroKind::OptMap | MacroKind::OptFlatMap => self.optional_map(at, parts),
            MacroKind::SortBy => self.sort_by(at, parts),
            _ => {
                let range = self.check(&parts.target)?;
                self.fold(at, range, parts)
            }
        }
    }

    /// Declares variables, checks what may read them, and removes them.
    fn within<T>(
        &mut self,
        variables: Vec<(String, Type)>,
        check: impl FnOnce(&mut Checker, usize) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let first = self.n_slots;
        let n_outer = self.variables.len();
        for (name, of) in variables {
            self.variables.push((name, of, self.n_slots));
            self.n_slots += 1;
        }
        let result = check(self, first);
        self.variables.truncate(n_outer);
        result
    }

    fn bind(&mut self, parts: &Macro) -> Result<Typed, Refusal> {
        let value = self.check(&parts.target)?;
        let name = parts.variables.first().cloned().unwrap_or_default();
        let (slot, body) = self.within(vec![(name, value.of)], |checker, slot| {
            Ok((slot, checker.check(&parts.body)?))
        })?;
        let (value, node) = (Box::new(value.node), Box::new(body.node));
        Ok(Typed { node: Node::Bind { slot, value, body: node }, of: body.of })
    }

    fn optional_map(&mut self, at: usize, parts: &Macro) -> Result<Typed, Refusal> {
        let optional = self.check(&parts.target)?;
        let types = [optional.of];
        self.resolve(at, "hasValue", true, &types)?;
        let (of, ..) = self.resolve(at, "value", true, &types)?;
        let name = parts.variables.first().cloned().unwrap_or_default();
        let (slot, body) =
            self.within(vec![(name, of)], |checker, slot| Ok((slot, checker.check(&parts.body)?)))?;
        let is_flat = parts.kind == MacroKind::OptFlatMap;
        let yes = if is_flat { body.of } else { Type::optional(body.of) };
        let no = Type::optional(self.known.variable());
        let (of, ..) = self.resolve(at, "_?_:_", false, &[Type::Bool, yes, no])?;
        let (optional, body) = (Box::new(optional.node), Box::new(body.node));
        Ok(Typed { node: Node::OptionalMap { slot, optional, body, is_flat }, of })
    }

    /// Plans `list.sortBy(x, key)` as a variable for the list, and a sort of it by its keys.
    fn sort_by(&mut self, at: usize, parts: &Macro) -> Result<Typed, Refusal> {
        let list = self.check(&parts.target)?;
        let slot = self.n_slots;
        self.n_slots += 1;
        let variable = |of| checker::attribute(Root::Variable(slot), of);
        let as_map = Macro { kind: MacroKind::Map, ..parts.clone() };
        let keys = self.fold(at, variable(list.of.clone()), &as_map)?;
        let name = "@sortByAssociatedKeys";
        let (of, cost, _) = self.resolve(at, name, true, &[list.of.clone(), keys.of])?;
        let function = functions::find(name).ok_or_else(|| Fault::new(at, "no sort"))?;
        let args = vec![variable(list.of).node, keys.node];
        let body = Box::new(Node::Call(Call { function, cost, args, exits_early: false }));
        Ok(Typed { node: Node::Bind { slot, value: Box::new(list.node), body }, of })
    }

    fn fold(&mut self, at: usize, range: Typed, parts: &Macro) -> Result<Typed, Refusal> {
        let types = self.variable_types(at, &range.of, parts.variables.len())?;
        let key = types.first().cloned().unwrap_or(Type::Dyn);
        let variables = parts.variables.iter().cloned().zip(types).collect();
        let (slots, step, of) = self.within(variables, |checker, first| {
            let slots = match parts.variables.len() {
                2 => Slots::Two(first, first + 1),
                _ => Slots::One(first),
            };
            let (step, of) = checker.step(parts, key)?;
            Ok((slots, step, of))
        })?;
        Ok(Typed { node: Node::Fold(Box::new(Fold { range: range.node, slots, step })), of })
    }

    /// The types of the variables of a macro over a value.
    fn variable_types(
        &mut self,
        at: usize,
        range: &Type,
        n_variables: usize,
    ) -> Result<Vec<Type>, Refusal> {
        let range = self.known.resolve(range);
        let (first, second) = match &range {
            Type::List(inner) if n_variables == 2 => (Type::Int, inner.first.clone()),
            Type::List(inner) => (inner.first.clone(), Type::Dyn),
            Type::Map(inner) => (inner.first.clone(), inner.last.clone()),
            Type::Dyn | Type::Param(_) => {
                self.known.accept(&[Type::Dyn], std::slice::from_ref(&range));
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let text = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                return Err(Fault::new(at, text).into());
            }
        };
        Ok(vec![first, second].into_iter().take(n_variables).collect())
    }

    /// Checks the condition and the body of a macro; returns the type of the macro's result.
    fn step(&mut self, parts: &Macro, key: Type) -> Result<(Step, Type), Refusal> {
        let body = &parts.body;
        Ok(match parts.kind {
            MacroKind::All => (Step::All(self.condition(body)?), Type::Bool),
            MacroKind::Exists => (Step::Exists(self.condition(body)?), Type::Bool),
            MacroKind::ExistsOne => (Step::ExistsOne(self.condition(body)?), Type::Bool),
            MacroKind::Filter => (Step::Filter(self.condition(body)?), Type::list(key)),
            MacroKind::TransformMap => {
                let (filter, body) = self.transform(parts.filter.as_ref(), body)?;
                (Step::TransformMap(filter, body.node), Type::map(key, body.of))
            }
            MacroKind::TransformMapEntry => {
                let (filter, entry) = self.transform(parts.filter.as_ref(), body)?;
                let entries = Type::map(self.known.variable(), self.known.variable());
                self.resolve(body.at, "@mapInsert", false, &[entries.clone(), entry.of])?;
                (Step::TransformMapEntry(filter, entry.node), self.known.resolve(&entries))
            }
            _ => {
                let (filter, body) = self.transform(parts.filter.as_ref(), body)?;
                (Step::Map(filter, body.node), Type::list(body.of))
            }
        })
    }

    fn transform(
        &mut self,
        filter: Option<&Expr>,
        body: &Expr,
    ) -> Result<(Option<Node>, Typed), Refusal> {
        let filter = filter.map(|filter| self.condition(filter)).transpose()?;
        Ok((filter, self.check(body)?))
    }
}
