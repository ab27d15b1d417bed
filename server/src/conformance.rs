//! Replays recorded decisions of kube-scheduler on the engine and says where the two differ; and puts worked examples of
//! lifecycle decisions to their functions ([`lifecycle`]).
//!
//! [`case`] is the recorded form, [`profile`] what it is decided by, [`replay`] drives one case through the engine,
//! [`compare`] holds one answer against its record, [`tally`] and [`report`] add up.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use rayon::prelude::*;

pub mod case;
mod claims;
pub mod compare;
pub mod lifecycle;
pub mod profile;
pub mod replay;
pub mod report;
pub mod tally;

use case::Case;
use report::{Corpus, Report, SuiteReport};

/// What to replay.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Only these suites, or groups of examples; empty means all.
    pub suites: Vec<String>,
    /// Every n-th case of a suite, starting with the first; 1 means all.
    pub every: usize,
    /// How many differences to keep a suite; all of them count.
    pub n_differences: usize,
}

impl Default for Selection {
    fn default() -> Selection {
        Selection { suites: Vec::new(), every: 1, n_differences: 10 }
    }
}

impl Selection {
    fn is_wanted(&self, suite: &str) -> bool {
        self.suites.is_empty() || self.suites.iter().any(|wanted| wanted == suite)
    }
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ConformanceError {
    /// The directory or a file in it cannot be read, or is damaged.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The directory or file.
        path: PathBuf,
        /// What the system or the decompressor said.
        source: io::Error,
    },
    /// Nothing to replay.
    #[error("`{}` holds no `*.jsonl` or `*.jsonl.gz` file", path.display())]
    Empty {
        /// The directory.
        path: PathBuf,
    },
    /// A file without a case.
    #[error("`{}` holds no case", path.display())]
    NoCase {
        /// The file.
        path: PathBuf,
    },
    /// A suite that was asked for has no file, or a group no example.
    #[error("suite `{suite}` is not in `{}`, which has: {known}", path.display())]
    UnknownSuite {
        /// The name that was asked for.
        suite: String,
        /// The directory or file.
        path: PathBuf,
        /// What it has.
        known: String,
    },
    /// A line is not a case.
    #[error("{}:{line}: {reason}", path.display())]
    Case {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// A file that holds no array.
    #[error("`{}` is not an array of lifecycle examples: {reason}", path.display())]
    NotExamples {
        /// The file.
        path: PathBuf,
        /// What the JSON parser said.
        reason: String,
    },
    /// An element of the array is not an example.
    #[error("`{}`: [{index}]{id}: {reason}", path.display())]
    Example {
        /// The file.
        path: PathBuf,
        /// From 0.
        index: usize,
        /// Its id in brackets, if it has one.
        id: String,
        /// The key at fault and what is wrong with it.
        reason: String,
    },
}

/// Runs what is at `path`: a directory of recorded decisions, or a file of lifecycle examples.
///
/// Errors: those of reading either.
pub fn run(path: &Path, selection: &Selection) -> Result<Report, ConformanceError> {
    if path.is_file() { lifecycle::run(path, selection) } else { replay_suites(path, selection) }
}

/// Replays the selected suites of `directory`, in name order, cases in parallel; the report does not depend on threads.
///
/// Errors: an unreadable or empty directory, an unknown suite, a damaged file, a line that is not a case.
fn replay_suites(directory: &Path, selection: &Selection) -> Result<Report, ConformanceError> {
    let files = suite_files(directory)?;
    let known: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    all_known(&selection.suites, &known, directory)?;
    let mut suites = Vec::new();
    for (name, path) in &files {
        if selection.is_wanted(name) {
            suites.push(run_suite(name, path, selection)?);
        }
    }
    Ok(Report { corpus: Corpus::Decisions, sampled_every: selection.every.max(1), suites })
}

/// Nobody asks for a suite that is not there.
fn all_known(asked_for: &[String], known: &[&str], path: &Path) -> Result<(), ConformanceError> {
    match asked_for.iter().find(|suite| !known.contains(&suite.as_str())) {
        Some(suite) => Err(ConformanceError::UnknownSuite {
            suite: suite.clone(),
            path: path.to_owned(),
            known: known.join(", "),
        }),
        None => Ok(()),
    }
}

/// The suites of a directory by name.
fn suite_files(directory: &Path) -> Result<Vec<(String, PathBuf)>, ConformanceError> {
    let read_error = |source| ConformanceError::Read { path: directory.to_owned(), source };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(read_error)? {
        let path = entry.map_err(read_error)?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        if let Some(suite) = name.strip_suffix(".jsonl.gz").or_else(|| name.strip_suffix(".jsonl"))
        {
            files.push((suite.to_owned(), path));
        }
    }
    files.sort();
    if files.is_empty() {
        Err(ConformanceError::Empty { path: directory.to_owned() })
    } else {
        Ok(files)
    }
}

fn run_suite(
    name: &str,
    path: &Path,
    selection: &Selection,
) -> Result<SuiteReport, ConformanceError> {
    let text = read(path)?;
    let lines: Vec<(usize, &str)> = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .step_by(selection.every.max(1))
        .collect();
    if lines.is_empty() {
        return Err(ConformanceError::NoCase { path: path.to_owned() });
    }
    let cases: Vec<Result<report::CaseReport, ConformanceError>> = lines
        .par_iter()
        .map(|(index, line)| {
            let case: Case =
                serde_json::from_str(line).map_err(|error| ConformanceError::Case {
                    path: path.to_owned(),
                    line: index + 1,
                    reason: in_column(&error),
                })?;
            Ok(run_case(&case))
        })
        .collect();
    let mut suite = SuiteReport::new(name);
    for case in cases {
        suite.add(case?, selection.n_differences);
    }
    Ok(suite)
}

fn run_case(case: &Case) -> report::CaseReport {
    match profile::policy_of(case) {
        Ok(policy) => replay::replay(case, &policy),
        Err(reason) => replay::unusable(case, &reason),
    }
}

fn read(path: &Path) -> Result<String, ConformanceError> {
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

/// What serde_json says, with the column alone: a case is one line, and its number is known.
fn in_column(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    match text.strip_suffix(&place) {
        Some(reason) if error.line() > 0 => format!("column {}: {reason}", error.column()),
        _ => text,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(name: &str, bytes: &[u8]) -> String {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(name), bytes).unwrap();
        let error = run(directory.path(), &Selection::default()).unwrap_err().to_string();
        error.replace(&directory.path().display().to_string(), "D")
    }

    #[test]
    fn damaged_files_are_told_plainly() {
        assert_eq!(error_of("fit.jsonl", b"\nx\n"), "D/fit.jsonl:2: column 1: expected value");
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, b"{}\n").unwrap();
        let whole = encoder.finish().unwrap();
        let damaged =
            "cannot read `D/fit.jsonl.gz`: the gzip data is cut off, or something else follows it";
        assert_eq!(error_of("fit.jsonl.gz", &whole[..whole.len() - 4]), damaged);
        assert_eq!(error_of("fit.jsonl.gz", &[&whole[..], b"junk"].concat()), damaged);
    }
}
