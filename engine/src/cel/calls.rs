//! Calls in the type checker: overloads, conversions of constants, constant patterns (S-DRA-114, S-DRA-115).

use super::checker::{Checker, Refusal, Typed, qualified_name};
use super::cost::Cost;
use super::function::Function;
use super::functions;
use super::pattern;
use super::plan::{Call, Node, Search, SearchKind};
use super::signature::{N_VARIABLES, Signature};
use super::syntax::{Expr, Kind};
use super::token::Fault;
use super::types::Type;
use super::value::Value;

/// Functions that are evaluated at compile time if their argument is constant; if that fails, the expression does not
/// compile.
const CONVERSIONS: [&str; 9] =
    ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "uint"];

/// Functions that are evaluated at compile time if their arguments are constant; their cost still counts.
const FOLDED: [&str; 5] = ["quantity", "semver", "ip", "cidr", "url"];

impl Checker {
    /// Checks a call of a function, with or without a target.
    pub(crate) fn call(
        &mut self,
        at: usize,
        target: Option<&Expr>,
        name: &str,
        args: &[Expr],
    ) -> Result<Typed, Refusal> {
        let full_name = target
            .and_then(qualified_name)
            .map(|prefix| format!("{prefix}.{name}"))
            .filter(|name| functions::find(name).is_some());
        let target = if full_name.is_some() { None } else { target };
        let name = full_name.as_deref().unwrap_or(name);
        let is_format = name == "format";
        self.n_formats += usize::from(is_format);
        let mut parts = Vec::new();
        for part in target.into_iter().chain(args) {
            parts.push(self.check(part)?);
        }
        self.n_formats -= usize::from(is_format);
        let (nodes, types): (Vec<Node>, Vec<Type>) =
            parts.into_iter().map(|part| (part.node, part.of)).unzip();
        let (of, cost, is_ambiguous) = self.resolve(at, name, target.is_some(), &types)?;
        if is_format && let Some(target) = target {
            self.note_format(at, target, args);
        }
        if name.starts_with("optional.of") {
            self.count_constructor(at)?;
        }
        let function = find(at, name)?;
        Ok(Typed { node: plan(at, function, (cost, is_ambiguous), nodes)?, of })
    }

    /// Finds the overloads that accept the types; returns the type of the result, how the cost is counted, and whether
    /// there are several.
    pub(crate) fn resolve(
        &mut self,
        at: usize,
        name: &str,
        is_member: bool,
        types: &[Type],
    ) -> Result<(Type, Cost, bool), Refusal> {
        let function = find(at, name)?;
        let mut result: Option<Type> = None;
        let (mut cost, mut n_found) = (function.ambiguous, 0);
        for (text, overload_cost) in function.overloads {
            let n_variables = if text.contains(['A', 'B', 'C', 'D']) { N_VARIABLES } else { 0 };
            let first = self.known.fresh(n_variables);
            let signature =
                Signature::read(text, first).filter(|signature| signature.is_member == is_member);
            let signature =
                signature.filter(|signature| self.known.accept(types, &signature.params));
            let Some(signature) = signature else {
                self.known.forget(first);
                continue;
            };
            n_found += 1;
            let found = self.known.resolve(&signature.result);
            (result, cost) = match result {
                None => (Some(found), *overload_cost),
                Some(of) if matches!(of, Type::Dyn | Type::Any) || of == found => {
                    (Some(of), function.ambiguous)
                }
                Some(_) => (Some(Type::Dyn), function.ambiguous),
            };
        }
        result
            .map(|of| (of, cost, n_found > 1))
            .ok_or_else(|| self.no_overload(at, name, is_member, types))
    }

    fn no_overload(&self, at: usize, name: &str, is_member: bool, types: &[Type]) -> Refusal {
        let shown: Vec<String> =
            types.iter().map(|of| self.known.resolve_fully(of).to_string()).collect();
        let applied = match shown.split_first() {
            Some((target, args)) if is_member => format!("{target}.({})", args.join(", ")),
            _ => format!("({})", shown.join(", ")),
        };
        let name = name.trim_start_matches('@');
        Fault::new(at, format!("found no matching overload for '{name}' applied to '{applied}'"))
            .into()
    }

    /// Notes a call of `format` whose text and arguments can be compared at compile time. Its list was checked last.
    fn note_format(&mut self, at: usize, target: &Expr, args: &[Expr]) {
        if let (Kind::Literal(Value::String(text)), [Expr { kind: Kind::List(_), .. }]) =
            (&target.kind, args)
        {
            let types = std::mem::take(&mut self.elements);
            self.format_calls.push((at, text.to_string(), types));
        }
    }
}

fn find(at: usize, name: &str) -> Result<&'static Function, Refusal> {
    functions::find(name).ok_or_else(|| {
        Fault::new(at, format!("undeclared reference to '{name}' (in container '')")).into()
    })
}

/// Plans a call whose types are checked.
fn plan(
    at: usize,
    function: &'static Function,
    (cost, is_ambiguous): (Cost, bool),
    mut args: Vec<Node>,
) -> Result<Node, Refusal> {
    match function.name {
        "_==_" | "_!=_" => {
            let is_negated = function.name == "_!=_";
            return two(at, args).map(|sides| Node::Equality { sides, is_negated });
        }
        "or" | "orValue" => {
            let is_unwrapped = function.name == "orValue";
            return two(at, args).map(|sides| Node::OptionalOr { sides, is_unwrapped });
        }
        "@in" => return plan_in(at, function, cost, args),
        "matches" | "find" | "findAll" => return plan_search(at, function, cost, args),
        name if CONVERSIONS.contains(&name) => {
            if let [Node::Constant(value)] = args.as_slice() {
                let converted = (function.run)(&[value]);
                return converted
                    .map(Node::Constant)
                    .map_err(|error| Refusal::Constant(error.to_string()));
            }
        }
        name if FOLDED.contains(&name) => {
            if let Some(folded) = fold(function, cost, &mut args) {
                return Ok(folded);
            }
        }
        _ => {}
    }
    // Upstream's operators have one implementation for all types; other functions choose among theirs after evaluating
    // the arguments one by one.
    let is_operator = function.name.starts_with(['_', '@']);
    let exits_early = args.len() > 2 || is_ambiguous && !is_operator;
    Ok(Node::Call(Call { function, cost, args, exits_early }))
}

fn two(at: usize, args: Vec<Node>) -> Result<Box<[Node; 2]>, Refusal> {
    let sides: Result<[Node; 2], _> = args.try_into();
    sides.map(Box::new).map_err(|_| Fault::new(at, "an operator has two sides").into())
}

/// Evaluates a call of constants; `None` if an argument is not constant, or if the call fails.
fn fold(function: &'static Function, cost: Cost, args: &mut [Node]) -> Option<Node> {
    let constants: Option<Vec<&Value>> = args
        .iter()
        .map(|arg| match arg {
            Node::Constant(value) => Some(value),
            _ => None,
        })
        .collect();
    let constants = constants?;
    let value = (function.run)(&constants).ok()?;
    let given: Vec<Option<&Value>> = constants.into_iter().map(Some).collect();
    let cost = cost.of(&given, Some(&value)).ok()?;
    Some(Node::Folded(value, cost))
}

/// Plans a membership. In a constant list of simple values it costs nothing, and in an empty one it is not evaluated.
fn plan_in(
    at: usize,
    function: &'static Function,
    cost: Cost,
    args: Vec<Node>,
) -> Result<Node, Refusal> {
    let sides = two(at, args)?;
    let [value, container] = *sides;
    let Node::Constant(Value::List(list)) = &container else {
        return Ok(Node::Call(Call {
            function,
            cost,
            args: vec![value, container],
            exits_early: false,
        }));
    };
    if list.is_empty() {
        return Ok(Node::Constant(Value::Bool(false)));
    }
    let is_simple = |value: &Value| {
        matches!(
            value,
            Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::String(_)
        )
    };
    if list.iter().all(is_simple) && matches!(cost, Cost::Elements) {
        let list = list.clone();
        return Ok(Node::InConstant { value: Box::new(value), list });
    }
    Ok(Node::Call(Call { function, cost, args: vec![value, container], exits_early: false }))
}

/// Plans a search; a constant pattern is compiled now.
fn plan_search(
    at: usize,
    function: &'static Function,
    cost: Cost,
    args: Vec<Node>,
) -> Result<Node, Refusal> {
    let Some(Node::Constant(Value::String(text))) = args.get(1) else {
        let exits_early = args.len() > 2;
        return Ok(Node::Call(Call { function, cost, args, exits_early }));
    };
    let regex = pattern::compile(text)
        .map_err(|error| Fault::new(at, format!("invalid {} argument: {error}", function.name)))?;
    let kind = match function.name {
        "matches" => SearchKind::Matches,
        "find" => SearchKind::Find,
        _ => SearchKind::FindAll,
    };
    let pattern = Value::String(text.clone());
    let mut args = args.into_iter();
    let text = args.next().ok_or_else(|| Fault::new(at, "a search has a text"))?;
    let limit = args.nth(1);
    Ok(Node::Search(Box::new(Search { kind, regex, pattern, text, limit, cost })))
}
