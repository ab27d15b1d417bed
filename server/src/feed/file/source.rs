//! Opens a path as a stream of bytes: standard input, gzip by its magic bytes, and a limit on the size.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use flate2::bufread::MultiGzDecoder;
use memchr::{memchr_iter, memrchr};

use crate::feed::FeedError;

/// Maximum number of bytes of one file after decompression: far above any cluster, far below a decompression bomb.
pub const MAX_BYTES: u64 = 8 << 30;

/// Number of times its own length that a compressed file may grow to, once it has grown beyond [`FREE_GROWTH`]. Dumps of
/// real clusters grow to some forty times theirs, and a bomb to a thousand times.
const MAX_GROWTH: u64 = 200;
const FREE_GROWTH: u64 = 64 << 20;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// A file that is being read, and decompressed if necessary.
pub(super) struct Source<'a> {
    /// Name of the file as given, for locations and errors.
    pub(super) path: Arc<str>,
    reader: Box<dyn Read + 'a>,
    /// Number of compressed bytes that were read; `None` where nothing is compressed.
    n_compressed: Option<Rc<Cell<u64>>>,
    n_bytes: u64,
}

/// Counts the bytes that are read.
struct Counted<R> {
    reader: R,
    n_bytes: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.reader.read(buffer)?;
        self.n_bytes.set(self.n_bytes.get() + n as u64);
        Ok(n)
    }
}

impl<'a> Source<'a> {
    /// Opens `path`; `-` is standard input.
    pub(super) fn open(path: &Path) -> Result<Source<'static>, FeedError> {
        let name: Arc<str> = path.to_string_lossy().into();
        let failed = |source: io::Error| FeedError::Read { path: name.to_string(), source };
        let mut raw: Box<dyn Read> = if path == Path::new("-") {
            Box::new(io::stdin())
        } else {
            let file = File::open(path).map_err(failed)?;
            if file.metadata().map_err(failed)?.is_dir() {
                let error = io::Error::new(io::ErrorKind::IsADirectory, "it is a directory");
                return Err(failed(error));
            }
            Box::new(file)
        };
        let mut head = Vec::new();
        raw.by_ref().take(GZIP_MAGIC.len() as u64).read_to_end(&mut head).map_err(failed)?;
        let is_gzip = head == GZIP_MAGIC;
        let whole = Cursor::new(head).chain(raw);
        let n_compressed = is_gzip.then(Rc::<Cell<u64>>::default);
        let reader: Box<dyn Read> = match &n_compressed {
            Some(n_bytes) => {
                let counted = Counted { reader: whole, n_bytes: n_bytes.clone() };
                Box::new(MultiGzDecoder::new(BufReader::with_capacity(64 << 10, counted)))
            }
            None => Box::new(whole),
        };
        Source { path: name, reader, n_compressed, n_bytes: 0 }.without_mark()
    }

    /// A source of the given text, with a name for errors.
    pub(super) fn of_text(path: &Arc<str>, text: &'a str) -> Result<Source<'a>, FeedError> {
        let reader = Box::new(text.as_bytes());
        Source { path: path.clone(), reader, n_compressed: None, n_bytes: 0 }.without_mark()
    }

    fn without_mark(mut self) -> Result<Source<'a>, FeedError> {
        let mut head = Vec::new();
        self.read_some(&mut head, BYTE_ORDER_MARK.len())?;
        if head == BYTE_ORDER_MARK {
            head.clear();
        }
        self.reader = Box::new(Cursor::new(head).chain(self.reader));
        Ok(self)
    }

    /// Appends up to `n` bytes, fewer only at the end; returns how many were read.
    pub(super) fn read_some(&mut self, buffer: &mut Vec<u8>, n: usize) -> Result<usize, FeedError> {
        let read = self.reader.by_ref().take(n as u64).read_to_end(buffer);
        let n = read.map_err(|error| self.trouble(error))?;
        self.n_bytes += n as u64;
        if self.n_bytes > MAX_BYTES {
            return Err(FeedError::TooLarge { path: self.path.to_string(), limit: MAX_BYTES });
        }
        if let Some(n_compressed) = &self.n_compressed {
            let limit = n_compressed.get().saturating_mul(MAX_GROWTH).max(FREE_GROWTH);
            if self.n_bytes > limit {
                return Err(FeedError::TooLarge { path: self.path.to_string(), limit });
            }
        }
        Ok(n)
    }

    fn trouble(&self, source: io::Error) -> FeedError {
        let path = self.path.to_string();
        if self.n_compressed.is_none() {
            return FeedError::Read { path, source };
        }
        let reason = match source.kind() {
            io::ErrorKind::UnexpectedEof => "it is cut off, or followed by something else",
            io::ErrorKind::InvalidInput if self.n_bytes > 0 => {
                "something that is not gzip follows the compressed data"
            }
            _ => "the compressed data is corrupt",
        };
        FeedError::Gzip { path, source: io::Error::new(source.kind(), reason) }
    }

    /// Reads the rest after `head`, as text.
    pub(super) fn into_text(mut self, head: Vec<u8>) -> Result<String, FeedError> {
        let mut bytes = head;
        while self.read_some(&mut bytes, 8 << 20)? > 0 {}
        String::from_utf8(bytes).map_err(|error| {
            let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let mut place = Position::START;
            place.advance(valid);
            place.error(&self.path, NOT_UTF8)
        })
    }
}

pub(super) const NOT_UTF8: &str = "the text is not UTF-8";

/// Position in a text: line and column in bytes, from 1.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) line: u64,
    pub(super) column: u64,
}

impl Position {
    pub(super) const START: Position = Position { line: 1, column: 1 };

    /// Advances the position over `bytes`.
    pub(super) fn advance(&mut self, bytes: &[u8]) {
        let n_lines = memchr_iter(b'\n', bytes).count() as u64;
        let n_last = match memrchr(b'\n', bytes) {
            Some(at) if n_lines > 0 => {
                self.column = 1;
                bytes.len() - at - 1
            }
            _ => bytes.len(),
        };
        self.line += n_lines;
        self.column += n_last as u64;
    }

    pub(super) fn error(self, path: &str, reason: impl Into<String>) -> FeedError {
        let Position { line, column } = self;
        FeedError::Syntax { path: path.to_owned(), line, column, reason: reason.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write as _;

    fn read(n_blanks: usize) -> Result<String, FeedError> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("dump.json.gz");
        let mut encoder = GzEncoder::new(File::create(&path).unwrap(), Compression::best());
        (0..n_blanks / 1024).for_each(|_| encoder.write_all(&[b' '; 1024]).unwrap());
        encoder.finish().unwrap();
        Source::open(&path)?.into_text(Vec::new())
    }

    #[test]
    fn a_file_that_grows_beyond_measure_is_refused() {
        assert_eq!(read(32 << 20).unwrap().len(), 32 << 20);
        let refused = read(96 << 20).unwrap_err();
        assert!(matches!(refused, FeedError::TooLarge { limit: FREE_GROWTH, .. }), "{refused:?}");
    }
}
