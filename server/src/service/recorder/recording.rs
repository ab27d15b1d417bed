//! The thread that writes a journal: begins segments, ends them, and goes on after a failure.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use berth_engine::{Beginning, Cluster, Generation};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::encode::Encoder;
use super::queue::{Item, Recorder};
use super::record::{Kind, Published, Start};
use crate::clock;
use crate::journal::directory::{self, Keep};
use crate::journal::writer::Writer;
use crate::policy::Profiles;
use crate::service::CallError;
use crate::telemetry::{JournalCounts, JournalGap};

/// What waits for its block is written after this time at the latest.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);
/// Time from the first item that comes until all that came are written together. A thread that waits at the queue has to
/// be woken by whoever tells it something, which costs a call more than its decision: so it waits there only when there is
/// nothing to write, and a server that decides without a pause wakes it 50 times a second.
const GATHER: Duration = Duration::from_millis(20);
/// Time until a journal that could not be written is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(15);
/// A journal has at least so many segments when it is full: the oldest is removed as a whole.
const MIN_SEGMENTS: u32 = 8;
/// Length in bytes from which on a segment ends, unless the journal is small.
const SEGMENT_BYTES: u64 = 64 << 20;

/// Where a journal is, and how much of it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalOptions {
    /// The directory, which is created if it is not there.
    pub directory: PathBuf,
    /// Maximum number of bytes of all segments; the one that is being written may exceed it by an eighth.
    pub max_bytes: u64,
    /// Maximum age of a segment.
    pub max_age: Duration,
}

/// What each segment says about the server.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    /// Version of Kubernetes that is followed.
    pub(crate) kubernetes: String,
    /// The text of the scheduler's configuration; empty for the default profile of this scheduler name.
    pub(crate) policy: String,
    pub(crate) scheduler_name: String,
}

impl Header {
    pub(crate) fn of(profiles: &Profiles) -> Header {
        Header {
            kubernetes: profiles.kubernetes().to_string(),
            policy: profiles.text().to_owned(),
            scheduler_name: profiles.usual_name().to_owned(),
        }
    }
}

/// A journal that is being written.
pub(crate) struct Journal {
    directory: PathBuf,
    /// For the one call that makes a part of it again.
    busy: Arc<Semaphore>,
    recorder: Arc<Recorder>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Journal {
    /// Starts to write what the cluster, which has this recorder, does from now on. If it holds nothing yet, the first
    /// segment has all of it.
    ///
    /// # Errors
    /// The directory cannot be created or written, or the thread not be started.
    pub(crate) fn start(
        cluster: &Arc<Cluster>,
        recorder: Arc<Recorder>,
        options: JournalOptions,
        header: Header,
        counts: JournalCounts,
    ) -> io::Result<Journal> {
        let receiver =
            recorder.receiver().ok_or_else(|| io::Error::other("it is written already"))?;
        let Header { kubernetes, policy, scheduler_name } = header;
        let start = Start {
            run: clock::unix_micros(),
            unix_micros: 0,
            generation: 0,
            berth: env!("CARGO_PKG_VERSION").to_owned(),
            kubernetes,
            policy,
            scheduler_name,
        };
        std::fs::create_dir_all(&options.directory)?;
        let mut recording = Recording {
            _lock: directory::lock(&options.directory)?,
            cluster: cluster.clone(),
            recorder: recorder.clone(),
            receiver,
            options,
            start,
            counts,
            n_bytes_before: 0,
            state: State::Waiting(clock::now()),
        };
        recording.begin()?;
        let directory = recording.options.directory.clone();
        let thread = std::thread::Builder::new().name("journal".to_owned());
        let thread = Mutex::new(Some(thread.spawn(move || recording.run())?));
        Ok(Journal { directory, busy: Arc::new(Semaphore::new(1)), recorder, thread })
    }

    /// Where its segments are.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// A turn at making a part of the journal again, which takes a core and the memory of a whole cluster.
    ///
    /// # Errors
    /// [`CallError::JournalBusy`] while another call has it.
    pub(crate) fn turn(&self) -> Result<OwnedSemaphorePermit, CallError> {
        self.busy.clone().try_acquire_owned().map_err(|_| CallError::JournalBusy)
    }

    /// Writes the rest, and waits until that is done.
    pub(crate) fn close(&self) {
        self.recorder.close();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // It ends in a panic only for a bug, which is logged.
        drop(thread.map(JoinHandle::join));
    }
}

/// What the thread has.
struct Recording {
    /// Held as long as segments are written: nobody else writes or removes any.
    _lock: File,
    cluster: Arc<Cluster>,
    recorder: Arc<Recorder>,
    receiver: Receiver<(Item, usize)>,
    options: JournalOptions,
    start: Start,
    counts: JournalCounts,
    /// Number of bytes of the segments before the one that is being written.
    n_bytes_before: u64,
    state: State,
}

enum State {
    /// Nothing is written until then.
    Waiting(Instant),
    Open(Box<Open>),
}

/// The segment that is being written.
struct Open {
    encoder: Encoder,
    /// The generation that it begins with.
    begins_at: Generation,
    since: Instant,
    /// What the next segment begins with, once everything before it is written.
    next: Option<Beginning>,
    /// When everything was in a block.
    flushed: Instant,
}

impl Recording {
    fn run(mut self) {
        loop {
            let written = match self.next() {
                Ok((Item::Close, _)) | Err(RecvTimeoutError::Disconnected) => break,
                Ok((item, n_bytes)) => {
                    self.recorder.note_taken(n_bytes);
                    self.write(item)
                }
                Err(RecvTimeoutError::Timeout) => self.look_after(),
            };
            if let Err(error) = written {
                self.fail(&error);
            }
        }
        self.recorder.set_takes(false);
        if let State::Open(open) = std::mem::replace(&mut self.state, State::Waiting(clock::now()))
            && let Err(error) = open.encoder.writer.finish()
        {
            tracing::warn!("the end of the journal could not be written: {error}");
        }
        self.counts.set_writing(false);
    }

    /// The next item. Where none is there, waits for one, and lets others come.
    fn next(&self) -> Result<(Item, usize), RecvTimeoutError> {
        if let Ok(next) = self.receiver.try_recv() {
            return Ok(next);
        }
        let next = self.receiver.recv_timeout(FLUSH_INTERVAL)?;
        if !matches!(next.0, Item::Close) {
            std::thread::sleep(GATHER);
        }
        Ok(next)
    }

    /// Writes an item, if there is a segment.
    fn write(&mut self, item: Item) -> io::Result<()> {
        let State::Open(open) = &mut self.state else { return Ok(()) };
        match item {
            Item::Changed { generation, unix_micros, changes } => {
                if generation <= open.begins_at {
                    return Ok(());
                }
                let open = match open.next.take_if(|next| next.generation() < generation) {
                    Some(next) => self.turn_over(&next)?,
                    None => open,
                };
                changes.into_iter().try_for_each(|change| open.encoder.change(change))?;
                open.encoder.put(Kind::Published(Published {
                    generation: generation.get(),
                    unix_micros,
                }))?;
                self.counts.count_generation();
            }
            // Perhaps on a generation of the segment before: readers look ahead.
            Item::Decided(told) => {
                self.counts.count_decisions(told.n_decisions);
                open.encoder.attempt(told)?;
            }
            Item::Close => {}
        }
        self.keep_up()
    }

    /// Writes what waits for long, and prepares the next segment when this one is large or old.
    fn keep_up(&mut self) -> io::Result<()> {
        let (segment_bytes, max_age) = (self.segment_bytes(), self.options.max_age);
        let State::Open(open) = &mut self.state else { return Ok(()) };
        let now = clock::now();
        let is_due = now.saturating_duration_since(open.flushed) >= FLUSH_INTERVAL;
        if is_due || open.encoder.writer.n_waiting() >= segment_bytes {
            open.encoder.writer.flush()?;
            open.flushed = now;
            self.counts.set_waiting(self.recorder.n_waiting_bytes());
            self.counts.set_bytes(self.n_bytes_before + open.encoder.writer.n_bytes());
        }
        let is_old = now.saturating_duration_since(open.since) >= max_age / MIN_SEGMENTS;
        if (is_old || open.encoder.writer.n_bytes() >= segment_bytes) && open.next.is_none() {
            // All that led here is in the queue, before all that comes after it.
            open.next = Some(self.cluster.beginning());
        }
        Ok(())
    }

    /// Called when nothing comes.
    fn look_after(&mut self) -> io::Result<()> {
        match &mut self.state {
            State::Waiting(until) if *until <= clock::now() => self.begin(),
            State::Waiting(_) => Ok(()),
            State::Open(_) if !self.recorder.takes() => {
                tracing::warn!("the journal was written too slowly; it begins anew");
                self.counts.count_gap(JournalGap::Overload);
                self.end_segment()?;
                self.begin()
            }
            State::Open(_) => self.keep_up(),
        }
    }

    /// Begins a segment with what the cluster holds now, and takes what is told from now on.
    fn begin(&mut self) -> io::Result<()> {
        self.recorder.set_takes(true);
        let beginning = self.cluster.beginning();
        self.open(&beginning).map(drop)
    }

    /// Ends the segment, and begins the one that goes on from it.
    fn turn_over(&mut self, next: &Beginning) -> io::Result<&mut Open> {
        self.end_segment()?;
        self.open(next)
    }

    fn end_segment(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.state, State::Waiting(clock::now())) {
            State::Open(open) => open.encoder.writer.finish(),
            State::Waiting(_) => Ok(()),
        }
    }

    fn open(&mut self, beginning: &Beginning) -> io::Result<&mut Open> {
        let directory = &self.options.directory;
        std::fs::create_dir_all(directory)?;
        // Later than the one before, also if the clock was set.
        self.start.unix_micros = clock::unix_micros().max(self.start.unix_micros + 1);
        self.start.generation = beginning.generation().get();
        let writer = Writer::create(directory, self.start.unix_micros)?;
        let path = writer.path().to_owned();
        let begun = self.begun(writer, beginning);
        if begun.is_err() {
            // A segment without a whole beginning is of no use.
            drop(std::fs::remove_file(path));
        }
        let (now, encoder) = (clock::now(), begun?);
        let begins_at = beginning.generation();
        let open = Open { encoder, begins_at, since: now, next: None, flushed: now };
        let keep = Keep {
            max_bytes: self.options.max_bytes.saturating_sub(self.segment_bytes()),
            max_age: self.options.max_age,
        };
        let n_bytes = directory::trim(directory, keep, clock::wall())?;
        self.n_bytes_before = n_bytes.saturating_sub(open.encoder.writer.n_bytes());
        self.counts.set_bytes(n_bytes);
        self.counts.set_writing(true);
        self.state = State::Open(Box::new(open));
        match &mut self.state {
            State::Open(open) => Ok(open),
            State::Waiting(_) => Err(io::Error::other("there is no segment")),
        }
    }

    /// A segment with its start and its beginning.
    fn begun(&self, writer: Writer, beginning: &Beginning) -> io::Result<Encoder> {
        let mut encoder = Encoder::new(writer);
        encoder.put(Kind::Start(self.start.clone()))?;
        encoder.beginning(beginning)?;
        let Start { generation, unix_micros, .. } = self.start;
        encoder.put(Kind::Published(Published { generation, unix_micros }))?;
        encoder.writer.flush()?;
        Ok(encoder)
    }

    /// Stops until it is tried again. The segment stays as far as it is whole.
    fn fail(&mut self, error: &io::Error) {
        self.recorder.set_takes(false);
        self.state = State::Waiting(clock::now() + RETRY_INTERVAL);
        self.counts.set_writing(false);
        self.counts.count_gap(JournalGap::Disk);
        let directory = self.options.directory.display();
        tracing::warn!(
            "decisions are not recorded in `{directory}`: {error}; it is tried again in {RETRY_INTERVAL:?}"
        );
    }

    fn segment_bytes(&self) -> u64 {
        SEGMENT_BYTES.min(self.options.max_bytes / u64::from(MIN_SEGMENTS))
    }
}
