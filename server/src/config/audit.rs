//! The section `audit`: the target of the audit log.

use std::path::{Path, PathBuf};

use crate::audit::{AuditOptions, AuditTarget};
use crate::document::decode::{self, Cursor};

/// Settings of the audit log from flags, variables or a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct AuditOverrides {
    /// File for a JSON line of each call that changes something, `-` for standard error [default: the log where callers are
    /// authenticated, else nowhere]
    #[arg(long, env = "BERTH_AUDIT_LOG", value_name = "FILE")]
    pub audit_log: Option<PathBuf>,
}

impl AuditOverrides {
    /// These settings, completed by those of `file`.
    pub(super) fn over(&self, file: &AuditOverrides) -> AuditOptions {
        let path = self.audit_log.as_ref().or(file.audit_log.as_ref());
        let target = path.map(|path| match path == Path::new("-") {
            true => AuditTarget::StandardError,
            false => AuditTarget::File(path.clone()),
        });
        AuditOptions { target, ..AuditOptions::default() }
    }
}

/// Decodes the field `audit` of the file. `directory` is where relative paths start.
pub(super) fn of_file(value: Cursor<'_>, directory: &Path) -> Option<AuditOverrides> {
    value.object(|fields| {
        let file = fields.take("file", |value| {
            let text = decode::text(value)?;
            if text.is_empty() {
                value.report("must not be empty");
                return None;
            }
            Some(if text == "-" { text.into() } else { directory.join(text) })
        });
        AuditOverrides { audit_log: file }
    })
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
