//! Filling: sets absent fields, and records which, to what, and from where.

use std::collections::BTreeMap;

use berth_proto::Quantity;

use super::outcome::{AdmissionWarning, Admitted, Filled};
use crate::model::label::clip;

/// Source of the API's own defaults.
pub(super) const DEFAULT: &str = "default";

/// The fields that are filled in, and the warnings, so far.
#[derive(Debug, Default)]
pub(super) struct Filling {
    admitted: Admitted,
}

impl Filling {
    pub(super) fn finish(self) -> Admitted {
        self.admitted
    }

    pub(super) fn warn(&mut self, warning: AdmissionWarning) {
        self.admitted.warnings.push(warning);
    }

    /// Records a field that was set.
    pub(super) fn note(
        &mut self,
        field: impl Into<String>,
        value: impl Into<String>,
        source: impl Into<String>,
    ) {
        let (field, value, source) = (field.into(), value.into(), source.into());
        self.admitted.filled.push(Filled { field, value, source });
    }

    /// Sets an empty text to its default; its path is `at.name`.
    pub(super) fn text(&mut self, slot: &mut String, value: &str, at: &str, name: &str) {
        if slot.is_empty() {
            value.clone_into(slot);
            self.note(format!("{at}.{name}"), value, DEFAULT);
        }
    }

    /// Sets an absent value to its default.
    pub(super) fn optional<T: ToString>(
        &mut self,
        slot: &mut Option<T>,
        value: T,
        at: &str,
        name: &str,
    ) {
        if slot.is_none() {
            self.note(format!("{at}.{name}"), value.to_string(), DEFAULT);
            *slot = Some(value);
        }
    }

    /// Sets a number that is 0 to its default.
    pub(super) fn number(&mut self, slot: &mut i32, value: i32, at: &str, name: &str) {
        if *slot == 0 {
            *slot = value;
            self.note(format!("{at}.{name}"), value.to_string(), DEFAULT);
        }
    }

    /// Adds the entries of `from` that the list at `field` lacks; returns their names.
    pub(super) fn amounts(
        &mut self,
        list: &mut BTreeMap<String, Quantity>,
        from: &BTreeMap<String, Quantity>,
        field: &str,
        source: &str,
    ) -> Vec<String> {
        let mut added = Vec::new();
        for (name, quantity) in from {
            if !list.contains_key(name) {
                list.insert(name.clone(), quantity.clone());
                self.note(format!("{field}[{}]", clip(name)), quantity.as_str(), source);
                added.push(name.clone());
            }
        }
        added
    }
}
