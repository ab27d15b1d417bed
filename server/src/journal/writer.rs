//! The writer of one segment.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

use prost::Message;
use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

use super::directory;
use super::{BLOCK_BYTES, MAGIC, MAX_BLOCK_BYTES};

/// Strength of the compression: the weakest of zstd's numbered ones, since records are written while calls are answered.
const LEVEL: i32 = 1;

/// A segment that is being written.
pub(crate) struct Writer {
    file: File,
    path: PathBuf,
    compressor: Compressor<'static>,
    /// Records that are in no block yet.
    waiting: Vec<u8>,
    /// Length of the file.
    n_bytes: u64,
    block: Vec<u8>,
}

impl Writer {
    /// Creates the segment that begins at this time, in microseconds since 1970.
    ///
    /// # Errors
    /// The file cannot be created or written, or there is one of this time.
    pub(crate) fn create(directory: &Path, unix_micros: u64) -> io::Result<Writer> {
        let path = directory::segment(directory, unix_micros);
        let mut options = File::options();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&path)?;
        file.write_all(MAGIC)?;
        let mut compressor = Compressor::new(LEVEL)?;
        compressor.set_parameter(CParameter::ChecksumFlag(true))?;
        let n_bytes = MAGIC.len() as u64;
        Ok(Writer { file, path, compressor, waiting: Vec::new(), n_bytes, block: Vec::new() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Number of bytes of the file; what waits for its block is not counted.
    pub(crate) fn n_bytes(&self) -> u64 {
        self.n_bytes
    }

    /// Number of bytes of records that are in no block yet.
    pub(crate) fn n_waiting(&self) -> u64 {
        self.waiting.len() as u64
    }

    /// Appends a record. It is on the disk some time after its block is full, or after [`Writer::flush`].
    ///
    /// # Errors
    /// A full block cannot be written; or the record is too large for any block.
    pub(crate) fn push(&mut self, record: &impl Message) -> io::Result<()> {
        let n_before = self.waiting.len();
        record.encode_length_delimited(&mut self.waiting).map_err(io::Error::other)?;
        if self.waiting.len() - n_before > MAX_BLOCK_BYTES / 2 {
            self.waiting.truncate(n_before);
            return Err(io::Error::other("a record is too large"));
        }
        if self.waiting.len() >= BLOCK_BYTES { self.flush() } else { Ok(()) }
    }

    /// Writes what waits. If that fails, the file is cut back to its whole blocks where possible.
    ///
    /// # Errors
    /// The block cannot be written.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let frame = self.compressor.compress(&self.waiting)?;
        let length = u32::try_from(frame.len()).map_err(io::Error::other)?;
        self.block.clear();
        self.block.extend(length.to_le_bytes());
        self.block.extend(&frame);
        if let Err(error) = self.file.write_all(&self.block) {
            // A torn block is recognized by readers too, should this fail as well.
            drop(self.file.set_len(self.n_bytes));
            drop(self.file.seek(io::SeekFrom::Start(self.n_bytes)));
            return Err(error);
        }
        self.n_bytes += self.block.len() as u64;
        self.waiting.clear();
        Ok(())
    }

    /// Writes what waits and ends the segment, so that it survives the machine.
    ///
    /// # Errors
    /// The rest cannot be written.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.file.sync_data()
    }
}
