//! The attempts of one segment of the journal, without the changes around them.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use super::fault::failed;
use crate::journal::reader::{Block, ReadError, Reader};
use crate::replay::{Attempted, ReplayError};
use crate::service::recorder::decode::Dictionary;
use crate::service::recorder::record::{AttemptKind, AttemptRecord, Start};
use crate::service::{CallError, Cancel};

/// Hands over the attempts of a segment in their order, each with its number from 0, until `each` breaks. Returns what the
/// segment begins with; `None` if there is no such file, or no whole block in it yet.
///
/// # Errors
/// A damaged segment, a caller that is gone, the errors of `each`.
pub(super) fn attempts(
    path: &Path,
    cancel: &Cancel,
    mut each: impl FnMut(&Start, Attempted) -> Result<ControlFlow<()>, CallError>,
) -> Result<Option<Start>, CallError> {
    let mut reader = match Reader::open(path) {
        Ok(reader) => reader,
        Err(ReadError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Ok(None);
        }
        Err(error) => return Err(failed(error.into())),
    };
    let (dictionary, mut start, mut n) = (Dictionary::default(), None, 0);
    // The end of the segment that is being written is torn for a moment.
    while let Block::Records(block) = reader.next().map_err(|error| failed(error.into()))? {
        cancel.check()?;
        let mut records = Vec::new();
        let read = reader.records(&block, |record: AttemptRecord| records.extend(record.kind));
        read.map_err(|error| failed(error.into()))?;
        for record in records {
            let malformed =
                |reason: String| failed(ReplayError::Record { path: path.to_owned(), reason });
            match record {
                AttemptKind::Start(begun) => start = Some(begun),
                AttemptKind::Name(name) => dictionary.add_name(&name),
                AttemptKind::Template(encoded) => {
                    let added = dictionary.add_template(&encoded);
                    added.map_err(|error| malformed(error.to_string()))?;
                }
                AttemptKind::Attempt(attempt) => {
                    let Some(start) = &start else {
                        return Err(failed(ReplayError::NoStart { path: path.to_owned() }));
                    };
                    let attempted = Attempted::of(*attempt, (start.run, n), &dictionary);
                    let attempted = attempted.map_err(|error| malformed(error.to_string()))?;
                    n += 1;
                    if each(start, attempted)?.is_break() {
                        return Ok(Some(start.clone()));
                    }
                }
            }
        }
    }
    Ok(start)
}
