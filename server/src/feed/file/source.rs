//! From a path to text: standard input, gzip by its magic bytes, a bound on the size, UTF-8.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::feed::FeedError;

/// Most bytes of one file after decompression: far above any cluster, far below a decompression bomb.
pub const MAX_BYTES: u64 = 8 << 30;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The whole text of `path`, decompressed; `-` is standard input.
pub(super) fn read(path: &Path) -> Result<String, FeedError> {
    let name = || path.to_string_lossy().into_owned();
    let failed = |source: io::Error| FeedError::Read { path: name(), source };
    let raw = if path == Path::new("-") {
        read_bounded(io::stdin().lock(), 0, path)?
    } else {
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(failed(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory")));
        }
        read_bounded(file, metadata.len(), path)?
    };
    let bytes = if raw.starts_with(&GZIP_MAGIC) { decompress(&raw, path)? } else { raw };
    into_text(bytes, &name())
}

fn read_bounded(source: impl Read, size_hint: u64, path: &Path) -> Result<Vec<u8>, FeedError> {
    let mut bytes = Vec::with_capacity(usize::try_from(size_hint.min(1 << 30)).unwrap_or(0));
    source
        .take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|source| FeedError::Read { path: path.to_string_lossy().into_owned(), source })?;
    check_size(&bytes, path)?;
    Ok(bytes)
}

fn decompress(raw: &[u8], path: &Path) -> Result<Vec<u8>, FeedError> {
    let mut bytes = Vec::with_capacity(size_in_trailer(raw));
    MultiGzDecoder::new(raw)
        .take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|source| FeedError::Gzip { path: path.to_string_lossy().into_owned(), source })?;
    check_size(&bytes, path)?;
    Ok(bytes)
}

/// The size that a gzip member claims for itself, believed as far as deflate can compress: one allocation instead of a
/// dozen that each copy the last.
fn size_in_trailer(raw: &[u8]) -> usize {
    const MAX_RATIO: usize = 1032;
    let claimed = raw.last_chunk::<4>().map_or(0, |trailer| u32::from_le_bytes(*trailer));
    // One byte more, so that the end is seen without growing.
    usize::try_from(claimed).unwrap_or(0).min(raw.len().saturating_mul(MAX_RATIO)) + 1
}

fn check_size(bytes: &[u8], path: &Path) -> Result<(), FeedError> {
    if bytes.len() as u64 > MAX_BYTES {
        return Err(FeedError::TooLarge {
            path: path.to_string_lossy().into_owned(),
            limit: MAX_BYTES,
        });
    }
    Ok(())
}

fn into_text(mut bytes: Vec<u8>, name: &str) -> Result<String, FeedError> {
    const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
    if bytes.starts_with(BYTE_ORDER_MARK) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line_start = valid.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        FeedError::Syntax {
            path: name.to_owned(),
            line: 1 + count_lines(valid),
            column: 1 + (valid.len() - line_start) as u64,
            reason: "the text is not UTF-8".to_owned(),
        }
    })
}

/// Number of line ends in `bytes`.
pub(super) fn count_lines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|&&byte| byte == b'\n').count() as u64
}
