//! Options of the audit log.

use std::path::PathBuf;

/// Default number of lines that may wait.
const MAX_WAITING: usize = 16_384;

/// Target of audit lines, and how many may wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditOptions {
    /// Target (`audit.file`). Without one, the log of this process if callers are authenticated, and nowhere otherwise.
    pub target: Option<AuditTarget>,
    /// Maximum number of lines that wait to be written and of calls under way that will have one: further changes are
    /// refused.
    pub max_waiting: usize,
}

impl Default for AuditOptions {
    fn default() -> AuditOptions {
        AuditOptions { target: None, max_waiting: MAX_WAITING }
    }
}

/// A target of audit lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditTarget {
    /// A file, which is appended to, and opened anew on SIGHUP.
    File(PathBuf),
    /// Standard error: `-`.
    StandardError,
}
