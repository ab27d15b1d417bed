//! Lines into chunks, with the faults of one watch.

use std::io;
use std::time::Duration;

use axum::body::Bytes;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use super::settle;
use crate::faults::{Luck, Mishap};

/// Why a watch ends.
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
    luck: Luck,
    /// An event that waits to change places with the next.
    held: Option<Vec<u8>>,
    /// Since before the answer began, so that no cut is missed.
    cuts: watch::Receiver<u64>,
}

impl Writer {
    pub(super) fn new(
        chunks: mpsc::Sender<Result<Bytes, io::Error>>,
        chunk_bytes: usize,
        luck: Luck,
    ) -> Writer {
        let cuts = luck.cuts();
        let (chunk_bytes, buffer) = (chunk_bytes.max(1), Vec::new());
        Writer { chunks, chunk_bytes, buffer, luck, held: None, cuts }
    }

    /// Adds a line; what fills a chunk is sent.
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

    /// Sends what waits.
    pub(super) async fn flush(&mut self) -> Result<(), End> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let rest = Bytes::from(std::mem::take(&mut self.buffer));
        self.send(rest).await
    }

    async fn send(&mut self, chunk: Bytes) -> Result<(), End> {
        let slow = self.luck.plan().map_or(Duration::ZERO, |plan| plan.slow);
        if !slow.is_zero() {
            sleep(slow).await;
        }
        self.chunks.send(Ok(chunk)).await.map_err(|_| End::Gone)
    }

    /// Keeps a line back until after the next one.
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

    pub(super) fn next_mishap(&mut self) -> Mishap {
        self.luck.next()
    }

    pub(super) fn is_stalled(&self) -> bool {
        self.luck.plan().is_some_and(|plan| plan.stall)
    }

    pub(super) fn skips_bookmarks(&self) -> bool {
        self.luck.plan().is_some_and(|plan| plan.skip_bookmarks)
    }

    pub(super) fn cuts(&self) -> watch::Receiver<u64> {
        self.cuts.clone()
    }

    /// Ready when the client has closed the connection.
    pub(super) async fn gone(&self) {
        self.chunks.closed().await;
    }

    pub(super) async fn finish(mut self, end: End) {
        if end != End::Cut && self.held.is_some() {
            self.release_held().await.ok();
        }
        let cut = end == End::Cut || (end == End::Orderly && self.luck.half_closes());
        self.flush().await.ok();
        if cut {
            settle().await;
            self.chunks.send(Err(io::Error::from(io::ErrorKind::ConnectionAborted))).await.ok();
        }
    }
}
