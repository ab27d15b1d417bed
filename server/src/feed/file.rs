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
//! A field that Kubernetes does not know, at any depth, is a fault of its object, as is a pod without containers
//! (W-JS-12): [`UnknownFields`] says whether the object is refused for it. A text that begins like JSON and is not is
//! YAML, whose flow style looks like JSON.
//!
//! Cost: one pass over the bytes to find the items, then parsing and compiling at the sum of the cores' speeds. Memory:
//! a batch of a few megabytes, and the objects that are kept.

mod dump;
mod form;
mod item;
mod json;
mod kinds;
mod load;
mod source;
mod unknown;
mod value;
mod version;
mod workload;
mod written;
mod yaml;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use berth_proto::core_v1;

pub use dump::{Dump, Findings, Located, Location, Refused, UnknownFields};
pub use load::{LoadReport, load, load_files, load_files_keeping};
pub use source::MAX_BYTES;
pub(crate) use value::as_json;
pub use value::read_value;
pub use written::WrittenObject;

use super::FeedError;
use dump::Reading;
use item::{Collector, Parsed, TakeItems as _, Written};
use source::Source;

/// Reads one file, or standard input for `-`. Objects are parsed, not yet compiled or checked.
///
/// # Errors
/// [`FeedError`] for a file that cannot be read, decompressed or cut into objects; a bad object is in `refused`.
pub fn read(path: &Path, unknown_fields: UnknownFields) -> Result<Dump, FeedError> {
    read_each(path, Reading { unknown_fields, workloads: true }, unboxed)
}

/// Reads several files in order, as one cluster.
///
/// # Errors
/// The error of the first file that cannot be read; nothing of the others is returned then.
pub fn read_all(paths: &[PathBuf], unknown_fields: UnknownFields) -> Result<Dump, FeedError> {
    let mut dump = Dump::default();
    for path in paths {
        dump.append(read(path, unknown_fields)?);
    }
    Ok(dump)
}

/// Parses the text of a dump; `name` is used in locations and errors.
///
/// # Errors
/// [`FeedError::Syntax`] if the text is not valid JSON or YAML, [`FeedError::Empty`] if it contains nothing.
pub fn parse(
    name: &Arc<str>,
    text: &str,
    unknown_fields: UnknownFields,
) -> Result<Dump, FeedError> {
    let reading = Reading { unknown_fields, workloads: true };
    collect(Source::of_text(name, text)?, reading, unboxed)
}

/// The path of the bad field in a value that was parsed, if the error names one, and the reason.
pub(crate) fn fault(error: &serde_json::Error) -> (Option<String>, String) {
    item::fault(error)
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
        Parsed::Workload(workload) => Parsed::Workload(workload),
        Parsed::Ignored(kind) => Parsed::Ignored(kind),
        Parsed::Refused(refused) => Parsed::Refused(refused),
    }
}

/// Reads one file and passes every object to `then`, on all cores, as soon as it is parsed. Without `workloads` those
/// count as kinds that Berth does not read, and cost nothing: a cluster has no use for them.
fn read_each<N: Send, P: Send, O: Send>(
    path: &Path,
    reading: Reading,
    then: impl Fn(Written) -> Parsed<N, P, O> + Send + Sync,
) -> Result<Dump<N, P, O>, FeedError> {
    collect(Source::open(path)?, reading, then)
}

fn collect<N: Send, P: Send, O: Send>(
    mut source: Source<'_>,
    reading: Reading,
    then: impl Fn(Written) -> Parsed<N, P, O> + Send + Sync,
) -> Result<Dump<N, P, O>, FeedError> {
    let path = source.path.clone();
    let mut collector = Collector::new(reading, then);
    let head = form::head(&mut source)?;
    let n_documents = if form::is_json(&path, &head) {
        json::cut(source, head.bytes, &mut collector)?
    } else {
        let text = source.into_text(head.bytes)?;
        let yaml::Items { items, faults, n_documents } = yaml::items(&path, &text)?;
        // The items have a text of their own.
        drop(text);
        collector.take(items)?;
        faults.into_iter().for_each(|fault| collector.take_fault(fault));
        n_documents
    };
    if n_documents == 0 {
        return Err(FeedError::Empty { path: path.to_string() });
    }
    Ok(collector.into_dump())
}

#[cfg(test)]
mod tests;
