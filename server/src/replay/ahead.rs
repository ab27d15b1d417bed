//! Ahead: reads a journal farther than it is made again. A decision is told when it is made, and by then its generation may
//! be an old one; so each is handed over as soon as it is read, long before the changes around it.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;

use super::again::Attempted;
use super::error::ReplayError;
use super::source::{self, Read};
use crate::journal::directory;
use crate::journal::reader::ReadError;
use crate::service::recorder::decode::Dictionary;
use crate::service::recorder::record::{Kind, Published, Record, Start};

/// Number of bytes that are read ahead: minutes of a busy server, and more than the longest decision takes.
const AHEAD_BYTES: usize = 64 << 20;

/// What is to be made next.
pub(crate) enum Step {
    Segment { path: PathBuf, run: u64, start: Box<Start>, dictionary: Dictionary },
    Change(Box<Kind>),
    Published { generation: u64, unix_micros: u64 },
    Torn(u64),
}

/// The part of a journal that was read and is not made yet.
pub(crate) struct Ahead {
    source: Receiver<Result<Read, ReadError>>,
    has_ended: bool,
    /// The steps, with the number of bytes of the block that ends with each.
    steps: VecDeque<(Step, usize)>,
    n_bytes: usize,
    /// The segment that is being read.
    path: PathBuf,
    has_started: bool,
    dictionary: Dictionary,
    /// The run that is being read, and its number in the journal.
    run: (u64, u64),
    /// Number of attempts that were read.
    n_attempts: u64,
}

impl Ahead {
    /// The journal of a directory.
    ///
    /// # Errors
    /// [`ReplayError`]: there is none, or the directory cannot be read.
    pub(crate) fn open(directory: &Path) -> Result<Ahead, ReplayError> {
        let failed = |source| ReplayError::Directory { directory: directory.to_owned(), source };
        let segments = directory::segments(directory).map_err(failed)?;
        if segments.is_empty() {
            return Err(ReplayError::Empty { directory: directory.to_owned() });
        }
        Ok(Ahead::of(segments))
    }

    /// A part of a journal: some segments, in their order.
    pub(super) fn of(segments: Vec<PathBuf>) -> Ahead {
        Ahead {
            source: source::read(segments),
            has_ended: false,
            steps: VecDeque::new(),
            n_bytes: 0,
            path: PathBuf::new(),
            has_started: false,
            dictionary: Dictionary::default(),
            run: (0, 0),
            n_attempts: 0,
        }
    }

    /// The next step; `None` at the end. Attempts that are read meanwhile are handed to `note`.
    ///
    /// # Errors
    /// [`ReplayError`]: what cannot be read.
    pub(crate) fn next(
        &mut self,
        mut note: impl FnMut(Attempted),
    ) -> Result<Option<Step>, ReplayError> {
        while !self.has_ended && self.n_bytes < AHEAD_BYTES {
            match self.source.recv() {
                Ok(read) => self.take(read?, &mut note)?,
                Err(_) => self.has_ended = true,
            }
        }
        let Some((step, n_bytes)) = self.steps.pop_front() else { return Ok(None) };
        self.n_bytes -= n_bytes;
        Ok(Some(step))
    }

    fn take(&mut self, read: Read, note: &mut impl FnMut(Attempted)) -> Result<(), ReplayError> {
        match read {
            Read::Segment(path) => {
                (self.path, self.has_started) = (path, false);
                self.dictionary = Dictionary::default();
            }
            Read::Torn(n_bytes) => self.steps.push_back((Step::Torn(n_bytes), 0)),
            Read::Block(records, n_bytes) => {
                records.into_iter().try_for_each(|record| self.take_record(record, note))?;
                if let Some((_, bytes)) = self.steps.back_mut() {
                    *bytes += n_bytes;
                    self.n_bytes += n_bytes;
                }
            }
        }
        Ok(())
    }

    fn take_record(
        &mut self,
        record: Record,
        note: &mut impl FnMut(Attempted),
    ) -> Result<(), ReplayError> {
        let path = || self.path.clone();
        let is_start = matches!(record.kind, Some(Kind::Start(_)));
        if is_start == self.has_started {
            return Err(ReplayError::NoStart { path: path() });
        }
        let malformed = |reason: String| ReplayError::Record { path: path(), reason };
        let step = match record.kind {
            Some(Kind::Start(start)) => {
                self.has_started = true;
                if self.run.0 != start.run || self.run.1 == 0 {
                    self.run = (start.run, self.run.1 + 1);
                }
                let (path, dictionary) = (path(), self.dictionary.clone());
                Step::Segment { path, run: self.run.1, start: Box::new(start), dictionary }
            }
            Some(Kind::Template(encoded)) => {
                let added = self.dictionary.add_template(&encoded);
                return added.map_err(|error| malformed(error.to_string()));
            }
            Some(Kind::Name(name)) => {
                self.dictionary.add_name(&name);
                return Ok(());
            }
            Some(Kind::Attempt(attempt)) => {
                let attempted =
                    Attempted::of(attempt, (self.run.1, self.n_attempts), &self.dictionary);
                let attempted = attempted.map_err(|error| malformed(error.to_string()))?;
                self.n_attempts += 1;
                note(attempted);
                return Ok(());
            }
            Some(Kind::Published(Published { generation, unix_micros })) => {
                Step::Published { generation, unix_micros }
            }
            Some(change) => Step::Change(Box::new(change)),
            None => return Err(malformed("a later version of Berth has written it".to_owned())),
        };
        self.steps.push_back((step, 0));
        Ok(())
    }
}
