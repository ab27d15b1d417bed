//! The file feed: `kubectl get … -A -o json|yaml` dumps, plain or gzip-compressed.
//!
//! A source is cut into items while it is read (`json`; `yaml` needs the whole text), and the items are parsed and
//! compiled on all cores, a batch at a time. A bad item is refused alone, with its location and field; an error in the
//! file as a whole is a [`FeedError`].
//!
//! If an object has a key twice, the last one counts in JSON (W-JS-8), as in Kubernetes, and the object is refused in
//! YAML. A repeated `kind`, `apiVersion` or `items` of a document is an error of the file: one of two lists would be
//! lost.
//!
//! Cost: one pass over the bytes to find the items, then parsing and compiling at the sum of the cores' speeds. Memory:
//! a batch of a few megabytes, and the objects that are kept.

mod dump;
mod item;
mod json;
mod load;
mod source;
mod value;
mod written;
mod yaml;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use berth_proto::core_v1;

pub use dump::{Dump, Located, Location, Refused};
pub use load::{LoadReport, load, load_files, load_files_keeping};
pub use source::MAX_BYTES;
pub use value::read_value;
pub use written::WrittenObject;

use super::FeedError;
use item::{Collector, Parsed, TakeItems as _, Written};
use source::Source;

/// Reads one file, or standard input for `-`. Objects are parsed, not yet compiled or checked.
///
/// # Errors
/// [`FeedError`] for a file that cannot be read, decompressed or cut into objects; a bad object is in `refused`.
pub fn read(path: &Path) -> Result<Dump, FeedError> {
    read_each(path, unboxed)
}

/// Reads several files in order, as one cluster.
///
/// # Errors
/// The error of the first file that cannot be read; nothing of the others is returned then.
pub fn read_all(paths: &[PathBuf]) -> Result<Dump, FeedError> {
    let mut dump = Dump::default();
    for path in paths {
        dump.append(read(path)?);
    }
    Ok(dump)
}

/// Parses the text of a dump; `name` is used in locations and errors.
///
/// # Errors
/// [`FeedError::Syntax`] if the text is not valid JSON or YAML, [`FeedError::Empty`] if it contains nothing.
pub fn parse(name: &Arc<str>, text: &str) -> Result<Dump, FeedError> {
    collect(Source::of_text(name, text)?, unboxed)
}

/// Describes the error in a value that was parsed: the path of the field, and the reason.
pub(crate) fn describe(error: &serde_json::Error) -> String {
    item::described(error)
}

fn unboxed(written: Written) -> Parsed<core_v1::Node, core_v1::Pod, WrittenObject> {
    match written {
        Parsed::Node(Located { value, location }) => {
            Parsed::Node(Located { value: *value, location })
        }
        Parsed::Pod(Located { value, location }) => {
            Parsed::Pod(Located { value: *value, location })
        }
        Parsed::Object(object) => Parsed::Object(object),
        Parsed::Ignored(kind) => Parsed::Ignored(kind),
        Parsed::Refused(refused) => Parsed::Refused(refused),
    }
}

/// Reads one file and passes every object to `then`, on all cores, as soon as it is parsed.
fn read_each<N: Send, P: Send, O: Send>(
    path: &Path,
    then: impl Fn(Written) -> Parsed<N, P, O> + Send + Sync,
) -> Result<Dump<N, P, O>, FeedError> {
    collect(Source::open(path)?, then)
}

fn collect<N: Send, P: Send, O: Send>(
    mut source: Source<'_>,
    then: impl Fn(Written) -> Parsed<N, P, O> + Send + Sync,
) -> Result<Dump<N, P, O>, FeedError> {
    let path = source.path.clone();
    let mut collector = Collector::new(then);
    let mut head = Vec::new();
    while source.read_some(&mut head, 4096)? > 0 && head.trim_ascii_start().is_empty() {}
    // kubectl writes JSON with the brace first; none of its YAML starts like that.
    let n_documents =
        if head.trim_ascii_start().starts_with(b"{") || head.trim_ascii_start().starts_with(b"[") {
            json::cut(source, head, &mut collector)?
        } else {
            let text = source.into_text(head)?;
            let yaml::Items { items, n_documents } = yaml::items(&path, &text)?;
            // The items have a text of their own.
            drop(text);
            collector.take(items)?;
            n_documents
        };
    if n_documents == 0 {
        return Err(FeedError::Empty { path: path.to_string() });
    }
    Ok(collector.into_dump())
}

#[cfg(test)]
mod tests;
