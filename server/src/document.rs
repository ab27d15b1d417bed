//! Strict reader of documents that operators write.
//!
//! A [`Document`] keeps every line and every duplicate key; [`decode`] takes the known fields out of it and reports the
//! rest. All problems of a stage are reported at once, each with line and field (S-CFG-4).

pub mod decode;
mod read;
pub mod duration;
pub mod tree;
mod error;

pub use error::{ConfigError, Problem};
pub use read::located;
pub(crate) use read::{described_kind, parse, read, with_lines};
pub use tree::{Document, Value};
