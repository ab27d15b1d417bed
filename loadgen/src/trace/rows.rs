//! CSV files of a trace, plain or gzipped, with errors that name file, line and column.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use csv::{ErrorKind, StringRecord};
use flate2::read::MultiGzDecoder;

use super::TraceError;

/// Reads every line of `source` through `parse`; errors name the source as `path`. The header must have all of
/// `columns`; other columns are skipped.
pub fn read_from<T>(
    path: &Path,
    source: impl Read,
    columns: &[&'static str],
    mut parse: impl FnMut(&Row<'_>) -> Result<T, TraceError>,
) -> Result<Vec<T>, TraceError> {
    let mut reader = csv::Reader::from_reader(source);
    let header = reader.headers().map_err(|error| line_error(path, &error))?.clone();
    let mut positions = Vec::with_capacity(columns.len());
    for column in columns {
        let position =
            header.iter().position(|name| name.trim_start_matches('\u{feff}').trim() == *column);
        let missing = || TraceError::MissingColumn { path: path.to_owned(), column };
        positions.push((*column, position.ok_or_else(missing)?));
    }
    let mut parsed = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| line_error(path, &error))?;
        let line = record.position().map_or(0, csv::Position::line);
        parsed.push(parse(&Row { path, line, record: &record, positions: &positions })?);
    }
    Ok(parsed)
}

/// One line of the file.
#[derive(Debug)]
pub struct Row<'a> {
    path: &'a Path,
    line: u64,
    record: &'a StringRecord,
    positions: &'a [(&'static str, usize)],
}

/// Limit of an amount, so that the product of two fits in 64 bits.
const MAX_AMOUNT: i64 = 1_000_000_000;

impl Row<'_> {
    /// The column's text without surrounding white space; empty if the column is not one of those read.
    pub fn text(&self, column: &'static str) -> &str {
        let position = self.positions.iter().find(|(name, _)| *name == column);
        position.and_then(|(_, position)| self.record.get(*position)).map_or("", str::trim)
    }

    /// The column's text, which must not be empty.
    pub fn name(&self, column: &'static str) -> Result<&str, TraceError> {
        match self.text(column) {
            "" => Err(self.error(column, "is empty")),
            text => Ok(text),
        }
    }

    /// An amount from 0 to 10⁹.
    pub fn amount(&self, column: &'static str) -> Result<i64, TraceError> {
        let text = self.text(column);
        let amount = text.parse().ok().filter(|amount| (0..=MAX_AMOUNT).contains(amount));
        amount.ok_or_else(|| {
            self.error(column, &format!("`{text}` is not an integer from 0 to {MAX_AMOUNT}"))
        })
    }

    /// A 64-bit integer; `None` if the field is empty.
    pub fn integer(&self, column: &'static str) -> Result<Option<i64>, TraceError> {
        match self.text(column) {
            "" => Ok(None),
            text => match text.parse() {
                Ok(integer) => Ok(Some(integer)),
                Err(_) => Err(self.error(column, &format!("`{text}` is not a 64-bit integer"))),
            },
        }
    }

    /// An error about this line's `column`.
    pub fn error(&self, column: &'static str, reason: &str) -> TraceError {
        TraceError::Field {
            path: self.path.to_owned(),
            line: self.line,
            column,
            reason: reason.to_owned(),
        }
    }
}

/// Opens the file. Gzip is recognised by its magic bytes, independent of the file's name.
pub(super) fn open(path: &Path) -> Result<Box<dyn Read>, TraceError> {
    let failed = |source| TraceError::Read { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(failed)?;
    let mut magic = Vec::with_capacity(2);
    file.by_ref().take(2).read_to_end(&mut magic).map_err(failed)?;
    let gzipped = magic == [0x1f, 0x8b];
    let whole = BufReader::new(std::io::Cursor::new(magic).chain(file));
    Ok(if gzipped { Box::new(BufReader::new(MultiGzDecoder::new(whole))) } else { Box::new(whole) })
}

fn line_error(path: &Path, error: &csv::Error) -> TraceError {
    let path: PathBuf = path.to_owned();
    let line = error.position().map_or(1, csv::Position::line);
    let reason = match error.kind() {
        ErrorKind::Io(source) => {
            return TraceError::Read {
                path,
                source: std::io::Error::new(source.kind(), source.to_string()),
            };
        }
        ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("{len} fields where the header has {expected_len}")
        }
        ErrorKind::Utf8 { .. } => "is not UTF-8".to_owned(),
        _ => error.to_string(),
    };
    TraceError::Line { path, line, reason }
}
