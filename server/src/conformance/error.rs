//! Reasons for which there is no report.

use std::io;
use std::path::PathBuf;

/// The reason for which there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ConformanceError {
    /// The directory or a file in it cannot be read, or is damaged.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The directory or file.
        path: PathBuf,
        /// Error of the operating system or the decompressor.
        source: io::Error,
    },
    /// A directory without a suite file.
    #[error("`{}` holds no `*.jsonl` or `*.jsonl.gz` file", path.display())]
    Empty {
        /// The directory.
        path: PathBuf,
    },
    /// A file without a case.
    #[error("`{}` holds no case", path.display())]
    NoCase {
        /// The file.
        path: PathBuf,
    },
    /// A selected suite has no file, or a selected group has no example.
    #[error("suite `{suite}` is not in `{}`, which has: {known}", path.display())]
    UnknownSuite {
        /// The selected name.
        suite: String,
        /// The directory or file.
        path: PathBuf,
        /// The suites or groups that exist.
        known: String,
    },
    /// A line is not a case.
    #[error("{}:{line}: {reason}", path.display())]
    Case {
        /// The file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// The reason why the line is not a case.
        reason: String,
    },
    /// A file that holds no array.
    #[error("`{}` is not an array of lifecycle examples: {reason}", path.display())]
    NotExamples {
        /// The file.
        path: PathBuf,
        /// Error of the JSON parser.
        reason: String,
    },
    /// An element of the array is not an example.
    #[error("`{}`: [{index}]{id}: {reason}", path.display())]
    Example {
        /// The file.
        path: PathBuf,
        /// Index of the element, from 0.
        index: usize,
        /// Id of the example in brackets, if it has one.
        id: String,
        /// The key at fault and what is wrong with it.
        reason: String,
    },
}
