//! The section `journal`: where decisions are recorded, and how much of that is kept.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::read::{at_least, elapsed, path};
use super::settings::{Layer, settings};
use crate::document::decode::{self, Cursor};
use crate::document::{ConfigError, duration};
use crate::service::JournalOptions;

const DEFAULT_MAX_BYTES: u64 = 2 << 30;
/// Minimum of the size: a segment is an eighth of it.
const MIN_MAX_BYTES: u64 = 8 << 20;
const DEFAULT_MAX_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);
const MIN_MAX_AGE: Duration = Duration::from_secs(60);

settings! {
    /// The section `journal` as flags, variables or a file give it.
    #[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
    pub struct JournalOverrides for (), in directory, read as journal;

    /// Directory in which every change and decision is recorded, for `berth replay`
    #[arg(long = "journal", env = "BERTH_JOURNAL", value_name = "DIR")]
    journal_directory: Option<PathBuf> {
        file: "directory" = |value| path(value, directory),
        shown: "none: nothing is recorded",
        page: "directory in which every change of the cluster and every decision is [recorded](journal.md); it is \
            created if it does not exist.",
    }

    /// Most bytes of the journal; the oldest part is removed first [default: 2147483648]
    #[arg(long, env = "BERTH_JOURNAL_MAX_BYTES", value_name = "BYTES")]
    journal_max_bytes: Option<u64> {
        file: "maxBytes" = decode::integer,
        check: at_least(MIN_MAX_BYTES) => "--journal-max-bytes",
        shown: "`2147483648`",
        page: "bytes of the journal, at least 8388608; the oldest part is removed first.",
    }

    /// Longest time that a part of the journal is kept [default: 168h]
    #[arg(long, env = "BERTH_JOURNAL_MAX_AGE", value_name = "DURATION", value_parser = duration::parse)]
    journal_max_age: Option<Duration> {
        file: "maxAge" = elapsed,
        check: at_least(MIN_MAX_AGE) => "--journal-max-age",
        shown: "`168h`",
        page: "longest time that a part of the journal is kept, at least 1 minute.",
    }
}

/// Decodes the section; `directory` is where relative paths start.
pub(super) fn section(value: Cursor<'_>, directory: &Path) -> Option<JournalOverrides> {
    value.object(|fields| JournalOverrides::read(fields, directory))
}

impl JournalOverrides {
    /// These settings, completed by those of `file`; `None` where no directory is named.
    ///
    /// # Errors
    /// [`ConfigError::Setting`]: a bound of a journal that is not written.
    pub(super) fn over(
        &self,
        file: &JournalOverrides,
    ) -> Result<Option<JournalOptions>, ConfigError> {
        let given = Layer::over(self, file);
        given.check()?;
        let Some(directory) = given.journal_directory else {
            return match (given.journal_max_bytes, given.journal_max_age) {
                (None, None) => Ok(None),
                (Some(_), _) => Err(needs_directory("--journal-max-bytes")),
                (None, Some(_)) => Err(needs_directory("--journal-max-age")),
            };
        };
        Ok(Some(JournalOptions {
            directory,
            max_bytes: given.journal_max_bytes.unwrap_or(DEFAULT_MAX_BYTES),
            max_age: given.journal_max_age.unwrap_or(DEFAULT_MAX_AGE),
        }))
    }
}

fn needs_directory(setting: &str) -> ConfigError {
    let reason = "has no effect without `--journal`".to_owned();
    ConfigError::Setting { name: setting.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_need_a_directory_and_flags_win() {
        let of = |directory: Option<&str>, max_bytes| JournalOverrides {
            journal_directory: directory.map(Into::into),
            journal_max_bytes: max_bytes,
            journal_max_age: None,
        };
        let none = of(None, None);
        assert_eq!(none.over(&none).unwrap(), None);
        let options = of(Some("a"), None).over(&of(Some("b"), Some(1 << 30))).unwrap().unwrap();
        assert_eq!((options.directory, options.max_bytes), ("a".into(), 1 << 30));
        assert_eq!(options.max_age, DEFAULT_MAX_AGE);
        let check = |given: JournalOverrides, expected: &str| {
            let error = given.over(&none).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(of(None, Some(1 << 30)), "--journal-max-bytes");
        check(of(Some("a"), Some(1)), "must be at least 8388608");
        let age =
            JournalOverrides { journal_max_age: Some(Duration::from_secs(60)), ..none.clone() };
        check(age, "--journal-max-age");
    }
}
