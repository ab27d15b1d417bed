//! Writer: the one thread that writes lines. It gathers those that come within some milliseconds, so that many
//! lines cost one write, and keeps lines that cannot be written until they can.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::line::Line;
use super::queue::{Message, Queue};
use super::sink::Sink;

/// How long a line waits for others.
const GATHER: Duration = Duration::from_millis(20);
/// Delay before a failed write is tried again.
const RETRY: Duration = Duration::from_secs(1);

pub(super) struct Writer {
    sink: Sink,
    receiver: Receiver<Message>,
    queue: Arc<Queue>,
    /// Records that are not written, from the first byte of the first.
    pending: Vec<u8>,
    /// Number of bytes of `pending` that are in the open file already.
    n_torn: usize,
    is_faulty: bool,
}

/// Whether to continue.
enum Next {
    More,
    Close(Option<oneshot::Sender<()>>),
}

impl Writer {
    pub(super) fn new(sink: Sink, receiver: Receiver<Message>, queue: Arc<Queue>) -> Writer {
        let (pending, n_torn, is_faulty) = (Vec::new(), 0, false);
        Writer { sink, receiver, queue, pending, n_torn, is_faulty }
    }

    /// Runs until it gets a message to close, or all senders are gone.
    pub(super) fn run(mut self) {
        loop {
            let next = self.wait();
            self.write();
            if let Next::Close(done) = next {
                self.end(done);
                return;
            }
        }
    }

    /// Waits for a message, and takes all that are there.
    fn wait(&mut self) -> Next {
        let first = match self.is_faulty {
            true => self.receiver.recv_timeout(RETRY),
            false => self.receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        let mut next = match first {
            Ok(message) => self.take(message),
            Err(RecvTimeoutError::Timeout) => Next::More,
            Err(RecvTimeoutError::Disconnected) => Next::Close(None),
        };
        if matches!(next, Next::More) {
            std::thread::sleep(GATHER);
            while matches!(next, Next::More)
                && let Ok(message) = self.receiver.try_recv()
            {
                next = self.take(message);
            }
        }
        next
    }

    fn take(&mut self, message: Message) -> Next {
        match message {
            Message::Line(line) => self.add(&line),
            Message::Reopen => self.reopen(),
            Message::Close(done) => return Next::Close(Some(done)),
        }
        Next::More
    }

    fn add(&mut self, line: &Line) {
        if let Sink::Log = self.sink {
            line.log();
            self.queue.release();
        } else {
            line.write(&mut self.pending);
        }
    }

    /// Opens the file anew; lines from before belong into the old file.
    fn reopen(&mut self) {
        self.write();
        match self.sink.reopen() {
            Ok(()) => self.n_torn = 0,
            Err(error) => tracing::error!(
                "the audit log {} was not opened again: {error}; lines still go to the file that was open",
                self.sink.name()
            ),
        }
    }

    /// Writes all pending lines, or notes the error.
    fn write(&mut self) {
        if self.is_faulty && self.sink.reopen().is_ok() {
            // Another file may have this name now; the old one keeps its torn line.
            self.n_torn = 0;
        }
        match self.try_write() {
            Ok(()) if self.is_faulty => {
                self.is_faulty = false;
                self.queue.set_fault(None);
                tracing::info!("the audit log {} can be written again", self.sink.name());
            }
            Ok(()) => {}
            Err(error) => self.note_fault(&error),
        }
    }

    fn note_fault(&mut self, error: &io::Error) {
        self.queue.set_fault(Some(format!("the audit log cannot be written: {error}")));
        if !std::mem::replace(&mut self.is_faulty, true) {
            tracing::error!(
                "the audit log {} cannot be written: {error}; calls that change something are refused until it can, and it is tried every second",
                self.sink.name()
            );
        }
    }

    fn try_write(&mut self) -> io::Result<()> {
        while self.n_torn < self.pending.len() {
            match self.sink.write(&self.pending[self.n_torn..]) {
                Ok(n) => self.n_torn += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.forget_written();
                    return Err(error);
                }
            }
        }
        self.forget_written();
        Ok(())
    }

    /// Releases the slots of lines that are whole in the file.
    fn forget_written(&mut self) {
        let whole = self.pending[..self.n_torn].iter().rposition(|byte| *byte == b'\n');
        let n_bytes = whole.map_or(0, |at| at + 1);
        let n_lines = self.pending[..n_bytes].iter().filter(|byte| **byte == b'\n').count();
        self.pending.drain(..n_bytes);
        self.n_torn -= n_bytes;
        self.queue.release_all(n_lines);
    }

    /// Takes the lines that came meanwhile, and writes the last of them.
    fn end(&mut self, done: Option<oneshot::Sender<()>>) {
        while let Ok(message) = self.receiver.try_recv() {
            if let Message::Line(line) = message {
                self.add(&line);
            }
        }
        self.write();
        if !self.pending.is_empty() {
            let n_lines = self.pending.iter().filter(|byte| **byte == b'\n').count();
            tracing::error!(n_lines, "the audit log ends without its last lines");
        }
        if let Some(done) = done {
            // The receiver may have given up.
            done.send(()).ok();
        }
    }
}
