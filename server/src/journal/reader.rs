//! The reader of one segment.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use prost::Message;
use prost::bytes::Buf;

use super::{MAGIC, MAX_BLOCK_BYTES};

/// A segment that is being read.
pub(crate) struct Reader {
    file: BufReader<File>,
    path: PathBuf,
    /// Position of the next block.
    at: u64,
    len: u64,
}

/// Reason why a segment cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// The file cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file is no segment of this version.
    #[error("`{}` is no segment of a journal that this version of Berth reads", path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
    },
    /// The file has other bytes than were written.
    #[error("`{}` is damaged at byte {at}: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Position of the block.
        at: u64,
        /// What is wrong.
        reason: String,
    },
}

/// The next block of a segment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Block {
    /// Whole records.
    Records(Vec<u8>),
    /// The rest of the file is the beginning of a block, which was not written to its end; the number of its bytes.
    Torn(u64),
    /// There is none.
    End,
}

impl Reader {
    /// Opens a segment.
    ///
    /// # Errors
    /// [`ReadError`].
    pub(crate) fn open(path: &Path) -> Result<Reader, ReadError> {
        let failed = |source| ReadError::File { path: path.to_owned(), source };
        let mut file = File::open(path).map_err(failed)?;
        let len = file.metadata().map_err(failed)?.len();
        let mut magic = [0; MAGIC.len()];
        match file.read_exact(&mut magic) {
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(failed(error)),
            Ok(()) if magic == *MAGIC => {
                let (file, at) = (BufReader::new(file), MAGIC.len() as u64);
                Ok(Reader { file, path: path.to_owned(), at, len })
            }
            _ => Err(ReadError::Unknown { path: path.to_owned() }),
        }
    }

    /// Reads the next block.
    ///
    /// # Errors
    /// [`ReadError`]: a block has other bytes than were written, though others follow it or it is whole.
    pub(crate) fn next(&mut self) -> Result<Block, ReadError> {
        const LENGTH: u64 = 4;
        let left = self.len - self.at;
        if left == 0 {
            return Ok(Block::End);
        }
        if left < LENGTH {
            return Ok(Block::Torn(left));
        }
        let mut length = [0; LENGTH as usize];
        self.read(&mut length)?;
        let n = u64::from(u32::from_le_bytes(length));
        if left - LENGTH < n {
            return Ok(Block::Torn(left));
        }
        // It is not longer than the file.
        let mut frame = vec![0; usize::try_from(n).unwrap_or(usize::MAX)];
        self.read(&mut frame)?;
        let records = zstd::bulk::decompress(&frame, self.bound(&frame)?)
            .map_err(|error| self.damaged(error.to_string()))?;
        self.at += LENGTH + n;
        Ok(Block::Records(records))
    }

    /// Reads the records of a block.
    ///
    /// # Errors
    /// [`ReadError::Damaged`]: the bytes are none.
    pub(crate) fn records<R: Message + Default>(
        &self,
        mut block: &[u8],
        mut each: impl FnMut(R),
    ) -> Result<(), ReadError> {
        while block.has_remaining() {
            each(
                R::decode_length_delimited(&mut block)
                    .map_err(|error| self.damaged(error.to_string()))?,
            );
        }
        Ok(())
    }

    fn read(&mut self, into: &mut [u8]) -> Result<(), ReadError> {
        let path = &self.path;
        let failed = |source| ReadError::File { path: path.clone(), source };
        self.file.read_exact(into).map_err(failed)
    }

    /// Number of bytes that a frame says it has.
    fn bound(&self, frame: &[u8]) -> Result<usize, ReadError> {
        let n_bytes = zstd::zstd_safe::get_frame_content_size(frame);
        let n_bytes = n_bytes.ok().flatten().and_then(|n| usize::try_from(n).ok());
        n_bytes
            .filter(|n| *n <= MAX_BLOCK_BYTES)
            .ok_or_else(|| self.damaged("it does not begin with the size of a block".to_owned()))
    }

    fn damaged(&self, reason: String) -> ReadError {
        ReadError::Damaged { path: self.path.clone(), at: self.at, reason }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::writer::Writer;
    use super::*;

    fn written(directory: &Path, blocks: &[&[&str]]) -> PathBuf {
        let mut writer = Writer::create(directory, 1).unwrap();
        for block in blocks {
            block.iter().for_each(|text| writer.push(&(*text).to_owned()).unwrap());
            writer.flush().unwrap();
        }
        assert_eq!(writer.n_bytes(), fs::metadata(writer.path()).unwrap().len());
        let path = writer.path().to_owned();
        writer.finish().unwrap();
        path
    }

    fn read(path: &Path) -> Result<(Vec<String>, Block), ReadError> {
        let mut reader = Reader::open(path)?;
        let mut texts = Vec::new();
        loop {
            match reader.next()? {
                Block::Records(block) => reader.records(&block, |text: String| texts.push(text))?,
                end => return Ok((texts, end)),
            }
        }
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        let directory = tempfile::tempdir().unwrap();
        let long = "x".repeat(3 << 20);
        let path = written(directory.path(), &[&["a", "b"], &[&long], &["c"]]);
        let (texts, end) = read(&path).unwrap();
        assert_eq!((texts, end), (vec!["a".into(), "b".into(), long, "c".into()], Block::End));
        let again = Writer::create(directory.path(), 1);
        assert_eq!(again.err().map(|error| error.kind()), Some(io::ErrorKind::AlreadyExists));
    }

    /// Wherever a segment is cut, all whole blocks are read.
    #[test]
    fn a_torn_end_is_told_apart() {
        let directory = tempfile::tempdir().unwrap();
        let path = written(directory.path(), &[&["a", "b"], &["c"]]);
        let bytes = fs::read(&path).unwrap();
        let first = 8 + 4 + u32::from_le_bytes(bytes[8..12].try_into().unwrap()) as usize;
        for cut in 8..bytes.len() {
            fs::write(&path, &bytes[..cut]).unwrap();
            let (texts, end) = read(&path).unwrap();
            let expected: &[&str] = if cut < first { &[] } else { &["a", "b"] };
            assert_eq!(texts, expected);
            let torn = match cut {
                8 => 0,
                cut if cut < first => cut - 8,
                cut => cut - first,
            };
            let expected = if torn == 0 { Block::End } else { Block::Torn(torn as u64) };
            assert_eq!(end, expected, "cut at {cut}");
        }
        fs::write(&path, &bytes[..7]).unwrap();
        assert!(matches!(read(&path), Err(ReadError::Unknown { .. })));
    }

    #[test]
    fn other_bytes_than_were_written_are_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = written(directory.path(), &[&["a", "b"], &["c"]]);
        let bytes = fs::read(&path).unwrap();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            fs::write(&path, changed).unwrap();
            let found = read(&path);
            let is_told = match &found {
                Err(_) => true,
                // A length that is too large looks like a block that was not written to its end; and some bits of a frame
                // say nothing.
                Ok((texts, end)) => matches!(end, Block::Torn(_)) || *texts == ["a", "b", "c"],
            };
            assert!(is_told, "byte {at}: {found:?}");
        }
    }
}
