//! Source: the records of a journal, read and unpacked by a thread of its own.

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;

use crate::journal::reader::{Block, ReadError, Reader};
use crate::service::recorder::record::Record;

/// Number of blocks that are read before they are wanted.
const N_BLOCKS: usize = 8;

/// What is read next.
pub(super) enum Read {
    /// A segment begins.
    Segment(PathBuf),
    /// The records of a block, and its size in bytes.
    Block(Vec<Record>, usize),
    /// The segment ends with a block that was not written to its end; the number of its bytes.
    Torn(u64),
}

/// Reads segments in order. The reading ends with the first error, and when the receiver is dropped.
pub(super) fn read(segments: Vec<PathBuf>) -> Receiver<Result<Read, ReadError>> {
    let (sender, receiver) = mpsc::sync_channel(N_BLOCKS);
    let sending = sender.clone();
    let thread = thread::Builder::new().name("reader".to_owned());
    let started = thread.spawn(move || {
        for path in segments {
            match read_one(path, &sending) {
                Ok(true) => {}
                Ok(false) => return,
                // An error means that nobody reads any more.
                Err(error) => return drop(sending.send(Err(error))),
            }
        }
    });
    if let Err(source) = started {
        let path = PathBuf::from("the journal");
        drop(sender.try_send(Err(ReadError::File { path, source })));
    }
    receiver
}

/// Reads a segment; returns whether anybody wants more.
fn read_one(
    path: PathBuf,
    sender: &SyncSender<Result<Read, ReadError>>,
) -> Result<bool, ReadError> {
    let mut reader = Reader::open(&path)?;
    if sender.send(Ok(Read::Segment(path))).is_err() {
        return Ok(false);
    }
    loop {
        let read = match reader.next()? {
            Block::Records(block) => {
                let mut records = Vec::new();
                reader.records(&block, |record| records.push(record))?;
                Read::Block(records, block.len())
            }
            Block::Torn(n_bytes) => {
                return Ok(sender.send(Ok(Read::Torn(n_bytes))).is_ok());
            }
            Block::End => return Ok(true),
        };
        if sender.send(Ok(read)).is_err() {
            return Ok(false);
        }
    }
}
