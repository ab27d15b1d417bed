//! The section `audit`: the target of the audit log.

use std::path::{Path, PathBuf};

use super::settings::{Layer, settings};
use crate::audit::{AuditOptions, AuditTarget};
use crate::document::decode::{self, Cursor};

settings! {
    /// The section `audit` as flags, variables or a file give it.
    #[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
    pub struct AuditOverrides for (), in directory, read as audit;

    /// File for a JSON line of each call that changes something, `-` for standard error [default: the log where callers
    /// are authenticated, else nowhere]
    #[arg(long, env = "BERTH_AUDIT_LOG", value_name = "FILE")]
    audit_log: Option<PathBuf> {
        file: "file" = |value| file(value, directory),
        shown: "the log where callers are authenticated, else nowhere",
        page: "file for one JSON line for each call that changes something; `-` is standard error.",
    }
}

impl AuditOverrides {
    /// These settings, completed by those of `file`.
    pub(super) fn over(&self, file: &AuditOverrides) -> AuditOptions {
        let target = Layer::over(self, file).audit_log.map(|path| match path == Path::new("-") {
            true => AuditTarget::StandardError,
            false => AuditTarget::File(path),
        });
        AuditOptions { target, ..AuditOptions::default() }
    }
}

/// Decodes the field `audit` of the file. `directory` is where relative paths start.
pub(super) fn of_file(value: Cursor<'_>, directory: &Path) -> Option<AuditOverrides> {
    value.object(|fields| AuditOverrides::read(fields, directory))
}

fn file(value: Cursor<'_>, directory: &Path) -> Option<PathBuf> {
    let text = decode::text(value)?;
    if text.is_empty() {
        value.report("must not be empty");
        return None;
    }
    Some(if text == "-" { text.into() } else { directory.join(text) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dash_is_standard_error_and_the_flag_wins() {
        let of = |path: Option<&str>| AuditOverrides { audit_log: path.map(Into::into) };
        let target = |flag, file| of(flag).over(&of(file)).target;
        assert_eq!(target(None, None), None);
        assert_eq!(target(None, Some("-")), Some(AuditTarget::StandardError));
        assert_eq!(target(Some("a"), Some("-")), Some(AuditTarget::File("a".into())));
    }
}
