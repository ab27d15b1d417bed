//! The flag that makes warnings of what is refused otherwise.

use crate::feed::file::{Findings, UnknownFields};

use super::output;

/// How strictly files are read.
#[derive(Copy, Clone, Debug, Default, clap::Args)]
pub struct LenientArgs {
    /// Warn of fields that Kubernetes does not know, and of pods without containers, instead of refusing the objects
    #[arg(long, global = true)]
    lenient: bool,
}

impl LenientArgs {
    /// The flag that means this treatment.
    pub(super) fn of(unknown_fields: UnknownFields) -> LenientArgs {
        LenientArgs { lenient: unknown_fields == UnknownFields::Warn }
    }

    /// Treatment of objects with unknown fields.
    pub(super) fn unknown_fields(self) -> UnknownFields {
        if self.lenient { UnknownFields::Warn } else { UnknownFields::Refuse }
    }
}

/// Prints the faults of objects that were used all the same.
pub(super) fn warn(warnings: &Findings) {
    for line in warnings.lines() {
        output::note(&format!("warning: {line}"));
    }
}
