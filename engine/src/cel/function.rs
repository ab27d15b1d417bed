//! The description of a function: its overloads for the checker, its implementation and its cost.

use super::cost::Cost;
use super::error::EvalError;
use super::value::Value;

/// The result of a call.
pub(crate) type Evaluated = Result<Value, EvalError>;

/// A function or an operator.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    /// The cost of a call whose overload is not known at compile time.
    pub(crate) ambiguous: Cost,
    /// Signatures, and the cost of a call with this overload.
    pub(crate) overloads: &'static [(&'static str, Cost)],
    /// Evaluates a call; the target is the first argument.
    pub(crate) run: fn(&[&Value]) -> Evaluated,
}

/// Describes a function with one cost for all overloads, whether known or not.
pub(crate) const fn uniform(
    name: &'static str,
    cost: Cost,
    overloads: &'static [(&'static str, Cost)],
    run: fn(&[&Value]) -> Evaluated,
) -> Function {
    Function { name, ambiguous: cost, overloads, run }
}

/// Describes a function whose calls cost 1 where the overload is not known.
pub(crate) const fn function(
    name: &'static str,
    overloads: &'static [(&'static str, Cost)],
    run: fn(&[&Value]) -> Evaluated,
) -> Function {
    uniform(name, Cost::One, overloads, run)
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}
