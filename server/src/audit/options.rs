//! Options of the audit log.

use std::path::PathBuf;

/// Lines that may wait unless told otherwise.
const MAX_WAITING: usize = 16_384;

/// Where audit lines go, and how many may wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditOptions {
    /// Where they go (`audit.file`). Without it, to the log where callers are asked who they are, and nowhere where they are not.
    pub target: Option<AuditTarget>,
    /// Lines that wait to be written, and calls under way that will have one: whatever else would change something is refused.
    pub max_waiting: usize,
}

impl Default for AuditOptions {
    fn default() -> AuditOptions {
        AuditOptions { target: None, max_waiting: MAX_WAITING }
    }
}

/// A place for audit lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditTarget {
    /// A file, which is appended to, and opened anew on SIGHUP.
    File(PathBuf),
    /// Standard error: `-`.
    StandardError,
}
