//! Replays recorded decisions of kube-scheduler on the engine and reports the differences; also runs worked examples of
//! lifecycle decisions against their functions ([`lifecycle`]).
//!
//! [`case`] is the recorded form, [`profile`] compiles a case's configuration, [`replay`] drives one case through the
//! engine, [`compare`] compares the engine's results with the record, [`tally`] and [`report`] add up.

use std::path::{Path, PathBuf};

use berth_engine::KubernetesVersion;
use rayon::prelude::*;

pub mod case;
mod error;
mod file;
mod selection;
mod claims;
mod expressions;
mod hints;
pub mod compare;
pub mod lifecycle;
pub mod profile;
pub mod replay;
pub mod report;
pub mod tally;

use case::Case;
pub use error::ConformanceError;
use file::read;
use report::{Corpus, Report, SuiteReport};
pub use selection::Selection;
use selection::all_known;

/// Runs the corpus at `path`: a directory of recorded decisions, or a file of lifecycle examples.
///
/// Errors: those of reading the directory or the file.
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

/// Paths of the suite files in a directory, with the suite names.
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
    let version = selection.version_of(path);
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
    let kind = Kind::of(&text);
    let cases: Vec<Result<report::CaseReport, ConformanceError>> = lines
        .par_iter()
        .filter(|(index, _)| *index > 0 || !matches!(kind, Kind::Expressions(_)))
        .map(|(index, line)| {
            kind.run(*index, line, version).map_err(|reason| ConformanceError::Case {
                path: path.to_owned(),
                line: index + 1,
                reason,
            })
        })
        .collect();
    let mut suite = SuiteReport::new(name);
    for case in cases {
        suite.add(case?, selection.n_differences);
    }
    Ok(suite)
}

/// What a suite has on each line.
enum Kind {
    /// A case with its steps.
    Cases,
    /// An expression, to be evaluated on these devices.
    Expressions(Vec<berth_engine::cel::Device>),
    /// An event and its queueing hint.
    Hints,
}

impl Kind {
    /// The kind of a suite, by its first line.
    fn of(text: &str) -> Kind {
        let first = text.lines().next().unwrap_or_default();
        if let Ok(devices) = serde_json::from_str::<expressions::Devices>(first) {
            return Kind::Expressions(devices.prepared());
        }
        let is_hint = serde_json::from_str::<serde_json::Value>(first);
        let is_hint = is_hint.is_ok_and(|value| value.get("hint").is_some());
        if is_hint { Kind::Hints } else { Kind::Cases }
    }

    /// Runs one line; the error says why it cannot be read.
    fn run(
        &self,
        index: usize,
        line: &str,
        version: KubernetesVersion,
    ) -> Result<report::CaseReport, String> {
        match self {
            Kind::Cases => {
                let case: Case = serde_json::from_str(line).map_err(|error| in_column(&error))?;
                Ok(run_case(&case, version))
            }
            Kind::Expressions(devices) => {
                expressions::replay(index, line, devices).map_err(|error| in_column(&error))
            }
            Kind::Hints => hints::replay(line).map_err(|error| in_column(&error))?,
        }
    }
}

fn run_case(case: &Case, version: KubernetesVersion) -> report::CaseReport {
    match profile::policy_of(case, version) {
        Ok(policy) => replay::replay(case, &policy),
        Err(reason) => replay::unusable(case, &reason),
    }
}

/// Text of a JSON error with the column alone: a case is one line, and the line number is reported separately.
fn in_column(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    match text.strip_suffix(&place) {
        Some(reason) if error.line() > 0 => format!("column {}: {reason}", error.column()),
        _ => text,
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
