//! Calls that are macros (S-DRA-114): recognised by name, style and number of arguments.

use super::syntax::{Expr, Kind, Macro, MacroKind};
use super::token::Fault;

/// Makes the expression of a call without a target: `has` or a function.
pub(crate) fn global(at: usize, function: String, args: Vec<Expr>) -> Result<Expr, Fault> {
    if function != "has" || args.len() != 1 {
        return Ok(Expr { at, kind: Kind::Call { target: None, function, args } });
    }
    match args.into_iter().next().map(|arg| arg.kind) {
        Some(Kind::Select { operand, field, is_optional: false }) => {
            Ok(Expr { at, kind: Kind::Has { operand, field } })
        }
        _ => Err(Fault::new(at, "invalid argument to has() macro")),
    }
}

/// Makes the expression of a call with a target: a macro or a function.
pub(crate) fn member(
    at: usize,
    target: Expr,
    function: String,
    args: Vec<Expr>,
) -> Result<Expr, Fault> {
    let is_cel = matches!(&target.kind, Kind::Ident(name) if name == "cel");
    if is_cel && function == "bind" && args.len() == 3 {
        return bind(at, args);
    }
    let Some((kind, n_variables)) = find(&function, args.len()) else {
        return Ok(Expr {
            at,
            kind: Kind::Call { target: Some(Box::new(target)), function, args },
        });
    };
    if kind == MacroKind::SortBy && matches!(target.kind, Kind::Literal(_) | Kind::Map(_)) {
        return Err(Fault::new(at, "sortBy cannot be applied to this expression"));
    }
    let mut args = args.into_iter();
    let variables: Vec<String> =
        args.by_ref().take(n_variables).map(|arg| variable(&arg)).collect::<Result<_, _>>()?;
    if n_variables == 2 && variables[0] == variables[1] {
        return Err(Fault::new(at, format!("duplicate variable name: {}", variables[1])));
    }
    let (first, second) = (args.next(), args.next());
    let (filter, body) = match (first, second) {
        (filter, Some(body)) => (filter, body),
        (Some(body), None) => (None, body),
        (None, None) => return Err(Fault::new(at, format!("no body in {function}()"))),
    };
    Ok(Expr { at, kind: Kind::Macro(Box::new(Macro { kind, target, variables, filter, body })) })
}

/// The macro of a name and a number of arguments, with the number of its variables.
fn find(function: &str, n_args: usize) -> Option<(MacroKind, usize)> {
    Some(match (function, n_args) {
        ("all", 2) => (MacroKind::All, 1),
        ("all", 3) => (MacroKind::All, 2),
        ("exists", 2) => (MacroKind::Exists, 1),
        ("exists", 3) => (MacroKind::Exists, 2),
        ("exists_one" | "existsOne", 2) => (MacroKind::ExistsOne, 1),
        ("exists_one" | "existsOne", 3) => (MacroKind::ExistsOne, 2),
        ("map", 2 | 3) => (MacroKind::Map, 1),
        ("filter", 2) => (MacroKind::Filter, 1),
        ("transformList", 3 | 4) => (MacroKind::Map, 2),
        ("transformMap", 3 | 4) => (MacroKind::TransformMap, 2),
        ("transformMapEntry", 3 | 4) => (MacroKind::TransformMapEntry, 2),
        ("sortBy", 2) => (MacroKind::SortBy, 1),
        ("optMap", 2) => (MacroKind::OptMap, 1),
        ("optFlatMap", 2) => (MacroKind::OptFlatMap, 1),
        _ => return None,
    })
}

fn bind(at: usize, args: Vec<Expr>) -> Result<Expr, Fault> {
    let mut args = args.into_iter();
    let (Some(name), Some(target), Some(body)) = (args.next(), args.next(), args.next()) else {
        return Err(Fault::new(at, "cel.bind() has three arguments"));
    };
    let variables = vec![variable(&name)?];
    let filter = None;
    Ok(Expr {
        at,
        kind: Kind::Macro(Box::new(Macro {
            kind: MacroKind::Bind,
            target,
            variables,
            filter,
            body,
        })),
    })
}

fn variable(expr: &Expr) -> Result<String, Fault> {
    match &expr.kind {
        Kind::Ident(name) if name == "__result__" => {
            Err(Fault::new(expr.at, "iteration variable overwrites accumulator variable"))
        }
        Kind::Ident(name) => Ok(name.clone()),
        _ => Err(Fault::new(expr.at, "argument must be a simple name")),
    }
}
