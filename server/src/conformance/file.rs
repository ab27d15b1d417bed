//! Reading of recorded files, gzipped or not.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use super::error::ConformanceError;

/// Reads a file as text.
pub(super) fn read(path: &Path) -> Result<String, ConformanceError> {
    let read = || -> io::Result<String> {
        let file = BufReader::new(File::open(path)?);
        let mut text = String::new();
        if path.extension().is_some_and(|extension| extension == "gz") {
            MultiGzDecoder::new(file).read_to_string(&mut text)?;
        } else {
            { file }.read_to_string(&mut text)?;
        }
        Ok(text)
    };
    read()
        .map_err(|source| ConformanceError::Read { path: path.to_owned(), source: plainly(source) })
}

/// The decompressor meets its end early in a file that was cut off, and in what follows one that was not.
fn plainly(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput => {
            io::Error::new(error.kind(), "the gzip data is cut off, or something else follows it")
        }
        _ => error,
    }
}
