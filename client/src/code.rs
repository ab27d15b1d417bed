//! Status codes of gRPC: their names in the specification, and what they say about the effect of a call.

use tonic::Code;

/// The code's name as the gRPC specification writes it, for example `DEADLINE_EXCEEDED`.
pub fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

/// Whether the caller knows what a call did to the server's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The status says what happened.
    Known,
    /// The server may have carried the call out or not.
    Unknown,
}

impl Effect {
    /// The effect of a call that ended with `code`: a refusal changes nothing, any other failure may hide a success.
    pub fn of(code: Code) -> Effect {
        match code {
            Code::Ok
            | Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::ResourceExhausted
            | Code::FailedPrecondition
            | Code::Aborted
            | Code::OutOfRange
            | Code::Unimplemented
            | Code::Unauthenticated => Effect::Known,
            Code::Cancelled
            | Code::Unknown
            | Code::DeadlineExceeded
            | Code::Internal
            | Code::Unavailable
            | Code::DataLoss => Effect::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::code_name;

    #[test]
    fn names_are_the_variants_in_screaming_snake_case() {
        for number in 0..=16 {
            let code = Code::from_i32(number);
            let joined = code_name(code).replace('_', "");
            assert_eq!(joined, format!("{code:?}").to_uppercase());
        }
        assert_eq!(code_name(Code::DeadlineExceeded), "DEADLINE_EXCEEDED");
    }
}
