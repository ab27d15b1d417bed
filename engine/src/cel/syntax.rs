//! The syntax tree of an expression, with macros as nodes of their own.

use super::value::Value;

/// A part of an expression, and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Expr {
    /// Position in bytes, for error messages.
    pub(crate) at: usize,
    pub(crate) kind: Kind,
}

/// The forms of expressions.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Literal(Value),
    Ident(String),
    /// `operand.field`, `operand.?field`.
    Select {
        operand: Box<Expr>,
        field: String,
        is_optional: bool,
    },
    /// `has(operand.field)`.
    Has {
        operand: Box<Expr>,
        field: String,
    },
    /// `operand[index]`, `operand[?index]`.
    Index {
        operand: Box<Expr>,
        index: Box<Expr>,
        is_optional: bool,
    },
    /// A call, also of an operator such as `_+_`.
    Call {
        target: Option<Box<Expr>>,
        function: String,
        args: Vec<Expr>,
    },
    And(Vec<Expr>),
    Or(Vec<Expr>),
    /// Condition, and the values when it is true and false.
    Conditional(Box<[Expr; 3]>),
    /// Elements; the flag marks optional ones.
    List(Vec<(Expr, bool)>),
    /// Keys and values; the flag marks optional entries.
    Map(Vec<(Expr, Expr, bool)>),
    Macro(Box<Macro>),
}

/// A macro with its parts.
#[derive(Clone, Debug)]
pub(crate) struct Macro {
    pub(crate) kind: MacroKind,
    /// The list, map, optional or value that the macro works on.
    pub(crate) target: Expr,
    /// One or two names of variables.
    pub(crate) variables: Vec<String>,
    /// The condition that elements have to meet before the body is evaluated.
    pub(crate) filter: Option<Expr>,
    pub(crate) body: Expr,
}

/// The macros except `has`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MacroKind {
    All,
    Exists,
    ExistsOne,
    /// `map` and `transformList`.
    Map,
    Filter,
    TransformMap,
    TransformMapEntry,
    SortBy,
    Bind,
    OptMap,
    OptFlatMap,
}
