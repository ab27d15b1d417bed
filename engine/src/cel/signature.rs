//! Signatures of functions, written as `string.(int) -> string` for `"x".f(1)` and `(string) -> int` for `f("x")`.

use super::types::{QUANTITY, Type};

/// A signature, with variables numbered from 0.
#[derive(Debug)]
pub(crate) struct Signature {
    /// Whether the first parameter is the target of the call.
    pub(crate) is_member: bool,
    pub(crate) params: Vec<Type>,
    pub(crate) result: Type,
}

/// The number of variables that a signature may have: `A` to `D`.
pub(crate) const N_VARIABLES: usize = 4;

impl Signature {
    /// Reads a signature; `first` is the number of its variable `A`. `None` for a malformed text.
    pub(crate) fn read(text: &str, first: usize) -> Option<Signature> {
        let (left, result) = text.split_once(" -> ")?;
        let open = if left.starts_with('(') { 0 } else { left.find(".(")? + 1 };
        let mut params = Vec::new();
        if let Some(target) = left[..open].strip_suffix('.') {
            params.push(read_type(target, first)?.0);
        }
        let mut rest = &left[open + 1..];
        while !rest.starts_with(')') {
            let (param, after) = read_type(rest, first)?;
            params.push(param);
            rest = after.strip_prefix(", ").unwrap_or(after);
        }
        Some(Signature { is_member: open > 0, params, result: read_type(result, first)?.0 })
    }
}

fn read_type(text: &str, first: usize) -> Option<(Type, &str)> {
    let end = text.find([',', '(', ')']).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    if let Some(inner) = rest.strip_prefix('(') {
        let (element, rest) = read_type(inner, first)?;
        if name == "map" {
            let (value, rest) = read_type(rest.strip_prefix(", ")?, first)?;
            return Some((Type::map(element, value), rest.strip_prefix(')')?));
        }
        let outer = if name == "list" { Type::list } else { Type::optional };
        return Some((outer(element), rest.strip_prefix(')')?));
    }
    let known = match name {
        "A" | "B" | "C" | "D" => Type::Param(first + usize::from(name.as_bytes()[0] - b'A')),
        "dyn" => Type::Dyn,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "duration" => Type::Duration,
        "timestamp" => Type::Timestamp,
        "type" => Type::Meta,
        "quantity" => QUANTITY,
        "semver" => Type::Object("kubernetes.Semver"),
        "url" => Type::Object("kubernetes.URL"),
        "ip" => Type::Object("net.IP"),
        "cidr" => Type::Object("net.CIDR"),
        "format" => Type::Object("kubernetes.NamedFormat"),
        "authorizer" => Type::Object("kubernetes.authorization.Authorizer"),
        "path" => Type::Object("kubernetes.authorization.PathCheck"),
        "group" => Type::Object("kubernetes.authorization.GroupCheck"),
        "resource" => Type::Object("kubernetes.authorization.ResourceCheck"),
        "decision" => Type::Object("kubernetes.authorization.Decision"),
        _ => return None,
    };
    Some((known, rest))
}
