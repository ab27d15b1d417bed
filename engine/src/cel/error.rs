//! Failures of expressions: at compile time, and on a device.

use std::borrow::Cow;

/// Limit of the length of an expression. An API server accepts 10,240 bytes.
pub const MAX_EXPRESSION_BYTES: usize = 64 << 10;

/// Reason why an expression does not compile (S-DRA-113, S-DRA-114). Texts are informative.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// The expression is longer than [`MAX_EXPRESSION_BYTES`].
    #[error("expression of {0} bytes is longer than {max} bytes", max = MAX_EXPRESSION_BYTES)]
    TooLong(usize),
    /// A syntax or type error at a place in the expression.
    #[error("compilation failed: ERROR: <input>:{line}:{column}: {text}")]
    Invalid {
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// The fault.
        text: String,
    },
    /// A constant part of the expression cannot be evaluated, such as `int("x")`.
    #[error("program instantiation failed: {0}")]
    Constant(String),
    /// The static type is neither bool nor any.
    #[error("must evaluate to bool or the unknown type, not {0}")]
    NotBool(String),
}

/// Reason why an expression has no result on a device. That it fails is exact; the text is informative.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// The evaluation costs more than the limit (S-DRA-118).
    #[error("operation cancelled: actual cost limit exceeded")]
    CostLimit,
    /// A failure that `&&` and `||` do not absorb, where upstream's evaluator panics.
    #[error("internal error: {0}")]
    Internal(&'static str),
    /// The device has an attribute or a capacity without a usable value (S-DRA-112).
    #[error("{0}")]
    Device(String),
    /// The result is not a bool (S-DRA-113).
    #[error("CEL result of type {0} could not be converted to bool")]
    NotBool(String),
    /// A function or operator has no overload for the types of its arguments.
    #[error("no such overload{0}")]
    NoSuchOverload(Cow<'static, str>),
    /// A map has no such key, or a value cannot be indexed.
    #[error("no such key: {0}")]
    NoSuchKey(String),
    /// A function refused its arguments.
    #[error("{0}")]
    Failed(Cow<'static, str>),
}

impl EvalError {
    /// An error with a text that is known beforehand.
    pub(crate) const fn failed(text: &'static str) -> EvalError {
        EvalError::Failed(Cow::Borrowed(text))
    }

    /// An error with a text about the arguments.
    pub(crate) fn of(text: String) -> EvalError {
        EvalError::Failed(Cow::Owned(text))
    }

    /// The error of a call whose arguments have types that no overload accepts.
    pub(crate) const fn no_overload() -> EvalError {
        EvalError::NoSuchOverload(Cow::Borrowed(""))
    }

    /// Whether the error ends the evaluation even where `&&` or `||` would absorb it.
    pub(crate) fn is_fatal(&self) -> bool {
        matches!(self, EvalError::CostLimit | EvalError::Internal(_))
    }
}
