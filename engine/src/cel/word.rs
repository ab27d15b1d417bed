//! The kinds of words in an expression.

/// The kinds of words.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Word {
    Ident(String),
    Int(u64),
    Uint(u64),
    Double(f64),
    String(String),
    Bytes(Vec<u8>),
    /// An operator or a bracket, or a keyword.
    Mark(&'static str),
    End,
}
