//! Errors of the client in words: the outer ones say little.

use std::error::Error;

/// The error and its causes, each that the text before it does not quote already.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let inner = error.to_string();
        if !text.contains(&inner) {
            text.push_str(": ");
            text.push_str(&inner);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot connect")]
    struct Outer(#[source] Quoting);

    #[derive(Debug, thiserror::Error)]
    #[error("the handshake failed: {0}")]
    struct Quoting(#[source] std::fmt::Error);

    #[test]
    fn a_cause_stands_once() {
        let error = Outer(Quoting(std::fmt::Error));
        let inner = std::fmt::Error.to_string();
        assert_eq!(with_causes(&error), format!("cannot connect: the handshake failed: {inner}"));
    }
}
