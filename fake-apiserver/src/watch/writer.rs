//! [`Writer`]: joins the lines of a watch to chunks and applies its faults.

use std::io;
use std::time::Duration;

use axum::body::Bytes;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use crate::faults::{EventFault, WatchFaults};

/// Manner in which a watch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// With the closing chunk.
    Orderly,
    /// The connection is cut.
    Cut,
    /// The client is gone.
    Gone,
}

pub(super) struct Writer {
    chunks: mpsc::Sender<Result<Bytes, io::Error>>,
    chunk_bytes: usize,
    buffer: Vec<u8>,
    watch_faults: WatchFaults,
    /// An event that is held back to swap it with the next.
    held: Option<Vec<u8>>,
    /// Receives cuts from before the response started, so that none is missed.
    cuts: watch::Receiver<u64>,
}

impl Writer {
    pub(super) fn new(
        chunks: mpsc::Sender<Result<Bytes, io::Error>>,
        chunk_bytes: usize,
        watch_faults: WatchFaults,
    ) -> Writer {
        let cuts = watch_faults.cuts();
        let (chunk_bytes, buffer) = (chunk_bytes.max(1), Vec::new());
        Writer { chunks, chunk_bytes, buffer, watch_faults, held: None, cuts }
    }

    /// Adds a line and sends full chunks.
    pub(super) async fn line(&mut self, line: Vec<u8>) -> Result<(), End> {
        self.buffer.extend_from_slice(&line);
        if self.buffer.len() >= self.chunk_bytes {
            let mut full = std::mem::take(&mut self.buffer);
            let n_whole = full.len() - full.len() % self.chunk_bytes;
            self.buffer = full.split_off(n_whole);
            let full = Bytes::from(full);
            for start in (0..n_whole).step_by(self.chunk_bytes) {
                self.send(full.slice(start..start + self.chunk_bytes)).await?;
            }
        }
        Ok(())
    }

    /// Sends the buffered bytes.
    pub(super) async fn flush(&mut self) -> Result<(), End> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let rest = Bytes::from(std::mem::take(&mut self.buffer));
        self.send(rest).await
    }

    async fn send(&mut self, chunk: Bytes) -> Result<(), End> {
        let slow = self.watch_faults.plan().map_or(Duration::ZERO, |plan| plan.slow);
        if !slow.is_zero() {
            sleep(slow).await;
        }
        self.chunks.send(Ok(chunk)).await.map_err(|_| End::Gone)
    }

    /// Holds a line back until after the next one.
    pub(super) async fn hold(&mut self, line: Vec<u8>) -> Result<(), End> {
        match self.held.replace(line) {
            Some(earlier) => self.line(earlier).await,
            None => Ok(()),
        }
    }

    pub(super) async fn release_held(&mut self) -> Result<(), End> {
        match self.held.take() {
            Some(line) => self.line(line).await,
            None => Ok(()),
        }
    }

    pub(super) fn next_fault(&mut self) -> EventFault {
        self.watch_faults.next()
    }

    pub(super) fn is_stalled(&self) -> bool {
        self.watch_faults.plan().is_some_and(|plan| plan.stall)
    }

    pub(super) fn skips_bookmarks(&self) -> bool {
        self.watch_faults.plan().is_some_and(|plan| plan.skip_bookmarks)
    }

    pub(super) fn cuts(&self) -> watch::Receiver<u64> {
        self.cuts.clone()
    }

    /// Waits until the client has closed the connection.
    pub(super) async fn gone(&self) {
        self.chunks.closed().await;
    }

    pub(super) async fn finish(mut self, end: End) {
        if end != End::Cut && self.held.is_some() {
            self.release_held().await.ok();
        }
        let cut = end == End::Cut || (end == End::Orderly && self.watch_faults.half_closes());
        self.flush().await.ok();
        if cut {
            settle().await;
            self.chunks.send(Err(io::Error::from(io::ErrorKind::ConnectionAborted))).await.ok();
        }
    }
}

/// Waits until the last chunk has reached the socket; an immediate cut would drop the chunk.
async fn settle() {
    sleep(Duration::from_millis(5)).await;
}
