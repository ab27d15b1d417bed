//! Read: from a field's value to a setting, and what refuses values, wherever they come from.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;

use crate::document::decode::{self, Cursor};

/// A path; a relative one starts at the folder.
pub(super) fn path(value: Cursor<'_>, directory: &Path) -> Option<PathBuf> {
    decode::text(value).map(|text| directory.join(text))
}

/// A duration that is not negative.
pub(super) fn period(value: Cursor<'_>) -> Option<Duration> {
    let nanos = decode::nanoseconds(value)?;
    let period = u64::try_from(nanos).map(Duration::from_nanos);
    period.map_err(|_| value.report("must not be negative")).ok()
}

/// A duration; a negative one counts as none, for a check to refuse.
pub(super) fn elapsed(value: Cursor<'_>) -> Option<Duration> {
    let nanos = decode::nanoseconds(value)?;
    Some(u64::try_from(nanos).map(Duration::from_nanos).unwrap_or_default())
}

/// Decodes one of the values that the flag of the same setting accepts.
pub(super) fn choice<T: ValueEnum>(value: Cursor<'_>) -> Option<T> {
    let text = decode::text(value)?;
    let parsed = T::from_str(&text, false);
    if parsed.is_err() {
        let names: Vec<String> = T::value_variants()
            .iter()
            .filter_map(ValueEnum::to_possible_value)
            .map(|name| format!("`{}`", name.get_name()))
            .collect();
        value.report(format!("`{text}` is not one of {}", names.join(", ")));
    }
    parsed.ok()
}

/// Refuses 0.
pub(super) fn not_zero<T: PartialEq + Default>(value: &T) -> Result<(), String> {
    if *value == T::default() { Err("must be greater than 0".to_owned()) } else { Ok(()) }
}

/// Refuses values below the least one.
pub(super) fn at_least<T: PartialOrd + Debug>(least: T) -> impl Fn(&T) -> Result<(), String> {
    move |value| {
        if *value < least { Err(format!("must be at least {least:?}")) } else { Ok(()) }
    }
}
