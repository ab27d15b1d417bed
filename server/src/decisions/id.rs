//! The id of a recorded decision: where it is in the journal.

use std::fmt;

use crate::service::CallError;

/// A decision about one pod. Ids are ordered as the decisions are in the journal.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DecisionId {
    /// When the segment was begun, in microseconds since 1970.
    pub(super) segment: u64,
    /// Number of the attempt in the segment, from 0.
    pub(super) attempt: u64,
    /// Position of the pod in the attempt.
    pub(super) index: usize,
}

impl DecisionId {
    /// What comes before all decisions of a segment.
    pub(super) fn before(segment: u64) -> DecisionId {
        DecisionId { segment, attempt: 0, index: 0 }
    }

    /// Reads the text of an id.
    ///
    /// # Errors
    /// [`CallError`] with the field: it is none.
    pub(super) fn read(field: &str, text: &str) -> Result<DecisionId, CallError> {
        let parts: Vec<&str> = text.split('-').collect();
        let number = |text: &str| {
            let is_plain = text.bytes().all(|it| it.is_ascii_digit());
            text.parse::<u64>().ok().filter(|_| is_plain)
        };
        let read = |[segment, attempt, index]: [&str; 3]| {
            let (segment, attempt) = (number(segment)?, number(attempt)?);
            Some(DecisionId { segment, attempt, index: usize::try_from(number(index)?).ok()? })
        };
        let parts = <[&str; 3]>::try_from(parts).ok();
        parts.and_then(read).ok_or_else(|| match text {
            "" => CallError::field(field, "must be set"),
            _ => CallError::field(field, "is none that `List` has returned"),
        })
    }
}

impl fmt::Display for DecisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.segment, self.attempt, self.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_is_written() {
        let id = DecisionId { segment: 1_764_000_000_000_000, attempt: 17, index: 3 };
        assert_eq!(DecisionId::read("id", &id.to_string()), Ok(id));
        for text in
            ["", "-", "1-2", "1-2-3-4", "1-2-x", "+1-2-3", "1--3", "99999999999999999999-0-0"]
        {
            let error = DecisionId::read("id", text).unwrap_err();
            assert_eq!(error.violation().unwrap().0, "id", "{text}");
        }
    }

    #[test]
    fn ids_are_ordered_as_decisions_are_made() {
        let id = |segment, attempt, index| DecisionId { segment, attempt, index };
        assert!(id(1, 9, 9) < id(2, 0, 0));
        assert!(id(2, 9, 0) < id(2, 10, 0));
        assert!(id(2, 9, 1) < id(2, 9, 2));
        assert!(DecisionId::before(2) <= id(2, 0, 0));
    }
}
