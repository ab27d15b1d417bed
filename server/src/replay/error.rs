//! Reasons for which a journal cannot be made again.

use std::path::PathBuf;

use berth_engine::RedoError;

use crate::document::ConfigError;
use crate::journal::reader::ReadError;

/// # Errors
/// [`ReplayError::Cancelled`] once nobody wants the answer any more.
pub(crate) fn check_wanted(cancelled: &dyn Fn() -> bool) -> Result<(), ReplayError> {
    if cancelled() { Err(ReplayError::Cancelled) } else { Ok(()) }
}

/// Why a journal cannot be made again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplayError {
    /// The directory cannot be read.
    #[error("cannot read `{}`: {source}", directory.display())]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// There is nothing in it.
    #[error("`{}` has no segment of a journal", directory.display())]
    Empty {
        /// The directory.
        directory: PathBuf,
    },
    /// A segment cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Nobody waits for it any more.
    #[error("nobody waits for it any more")]
    Cancelled,
    /// A segment does not begin with a start.
    #[error("`{}` does not begin as a segment does", path.display())]
    NoStart {
        /// The segment.
        path: PathBuf,
    },
    /// A segment's policy cannot be read.
    #[error("the policy of `{}`: {source}", path.display())]
    Policy {
        /// The segment.
        path: PathBuf,
        /// Why.
        source: ConfigError,
    },
    /// A segment follows a version of Kubernetes that this version of Berth does not know.
    #[error("`{}` follows Kubernetes {version}, which this version of Berth does not know", path.display())]
    Kubernetes {
        /// The segment.
        path: PathBuf,
        /// The version.
        version: String,
    },
    /// A record cannot be read.
    #[error("`{}`: {reason}", path.display())]
    Record {
        /// The segment.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The changes do not follow from those before.
    #[error("`{}`: generation {generation}: {source}", path.display())]
    Redo {
        /// The segment.
        path: PathBuf,
        /// The generation.
        generation: u64,
        /// Why.
        source: RedoError,
    },
}
