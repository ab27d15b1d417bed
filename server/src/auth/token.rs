//! Tokens: the bearer tokens of a file, in the form of Kubernetes' static token file: CSV lines of token, user, uid
//! and, in quotes, groups. A token may also be given as the SHA-256 of its bytes, `sha256:HEX`, so that the file holds
//! no secret.
//!
//! Only the SHA-256 of a token is kept, and a presented token is looked up by its own: the time that takes reveals
//! nothing about any token. No message repeats a token.

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use csv::ByteRecord;
use ring::digest::{SHA256, digest};

use super::binding::{RoleBinding, RoleBindings, role_of_group};
use super::{Caller, Means, Role};
use crate::document::{ConfigError, Problem};
use crate::escape;

/// Maximum size of the file, in bytes.
const MAX_FILE_BYTES: usize = 4 << 20;
/// Maximum number of tokens in a file.
const MAX_TOKENS: usize = 10_000;
/// Maximum length of a token in bytes; a header has to hold it.
pub(super) const MAX_TOKEN_BYTES: usize = 4_096;
/// Maximum length of the name of a user or a group, in bytes.
const MAX_NAME_BYTES: usize = 1_024;
/// Number of errors after which the rest of the file is not checked.
const MAX_PROBLEMS: usize = 20;
/// Prefix of a token that is given by its SHA-256.
const HASHED: &[u8] = b"sha256:";

type Digest = [u8; 32];

/// Tokens and their holders.
#[derive(Default)]
pub struct Tokens {
    holders: HashMap<Digest, Arc<Caller>>,
}

impl Tokens {
    /// Reads the text of a token file; `path` is for messages. Roles come from groups and `role_bindings`.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] with every error and its line, up to 20; none repeats a token.
    pub fn of_text(
        path: &Path,
        text: &[u8],
        role_bindings: &[RoleBinding],
    ) -> Result<Tokens, ConfigError> {
        parse(path, text, &RoleBindings::new(role_bindings))
    }

    /// The caller that holds `token`.
    pub fn holder(&self, token: &[u8]) -> Option<Arc<Caller>> {
        self.holders.get(&sha256(token)).cloned()
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.holders.len()
    }
}

fn sha256(token: &[u8]) -> Digest {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, token).as_ref());
    bytes
}

/// Logs a warning if every user of this machine can read the tokens.
pub(super) fn warn_if_exposed(path: &Path) {
    let mode = std::fs::metadata(path).map(|metadata| metadata.permissions().mode());
    if mode.is_ok_and(|mode| mode & 0o004 != 0) {
        tracing::warn!(
            file = %path.display(),
            "everybody on this machine can read the bearer tokens: `chmod o-r` the file, or write tokens as `sha256:HEX`"
        );
    }
}

/// Parses the tokens in `bytes`; `path` is for messages.
///
/// # Errors
/// [`ConfigError::Invalid`] with every error and its line, up to 20.
pub(super) fn parse(
    path: &Path,
    bytes: &[u8],
    bindings: &RoleBindings,
) -> Result<Tokens, ConfigError> {
    let mut reading = Reading { bindings, tokens: Tokens::default(), lines: HashMap::new() };
    let mut problems = Vec::new();
    if bytes.len() > MAX_FILE_BYTES {
        problems.push(Problem::new("", format!("holds more than {MAX_FILE_BYTES} bytes")));
    } else {
        let mut lines = Lines { bytes, at: 0, line: 1 };
        let mut reader =
            csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(bytes);
        let mut record = ByteRecord::new();
        // Bytes in memory can always be read, and records may have any number of columns.
        while problems.len() < MAX_PROBLEMS && reader.read_byte_record(&mut record).unwrap_or(false)
        {
            let start = record.position().map_or(0, csv::Position::byte);
            let line = lines.line_of_record(usize::try_from(start).unwrap_or(usize::MAX));
            if let Err((field, reason)) = reading.add(line, &record) {
                problems.push(Problem { line, field: field.to_owned(), reason });
            }
        }
    }
    if !problems.is_empty() {
        return Err(ConfigError::Invalid { origin: path.display().to_string(), problems });
    }
    Ok(reading.tokens)
}

/// Counts lines, to find those on which records begin.
struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
    line: u64,
}

impl Lines<'_> {
    /// The line on which the record at the offset `start` begins: that of the first byte which is no line break. To be
    /// called for records in their order.
    fn line_of_record(&mut self, start: usize) -> u64 {
        while let Some(byte) = self.bytes.get(self.at)
            && (self.at < start || matches!(byte, b'\r' | b'\n'))
        {
            self.line += u64::from(*byte == b'\n');
            self.at += 1;
        }
        self.line
    }
}

/// A column, and the error in it.
type Mistake = (&'static str, String);

struct Reading<'a> {
    bindings: &'a RoleBindings,
    tokens: Tokens,
    /// Line of each token.
    lines: HashMap<Digest, u64>,
}

impl Reading<'_> {
    fn add(&mut self, line: u64, record: &ByteRecord) -> Result<(), Mistake> {
        let (token, user, groups) = match (record.get(0), record.get(1), record.len()) {
            (Some(token), Some(user), 3) => (token, user, &[][..]),
            (Some(token), Some(user), 4) => (token, user, record.get(3).unwrap_or_default()),
            (_, _, n) if n > 4 => {
                let reason = format!(
                    "has {n} columns and may have 4: token, user, uid and groups; write several groups in quotes, as in `\"a,b\"`"
                );
                return Err(("", reason));
            }
            (_, _, n) => {
                let reason = format!(
                    "has {n} of the columns token, user, uid and groups, of which only the last may be left out"
                );
                return Err(("", reason));
            }
        };
        let digest = digest_of(token).map_err(|reason| ("token", reason.to_owned()))?;
        let user = name(user).map_err(|reason| ("user", reason))?;
        if user.is_empty() {
            return Err(("user", "must not be empty".to_owned()));
        }
        // The uid is not used, but Kubernetes has the column, and an unclosed quote would hide lines in it.
        name(record.get(2).unwrap_or_default()).map_err(|reason| ("uid", reason))?;
        let groups = groups_of(groups).map_err(|reason| ("groups", reason))?;
        if let Some(first) = self.lines.insert(digest, line) {
            return Err(("token", format!("is the one of line {first}")));
        }
        if self.lines.len() > MAX_TOKENS {
            return Err((
                "",
                format!("is one more than the {MAX_TOKENS} tokens that a file may hold"),
            ));
        }
        let roles = self.bindings.roles_of(&user, &groups);
        let caller = Caller { user: user.into(), groups, roles, means: Means::Token };
        self.tokens.holders.insert(digest, Arc::new(caller));
        Ok(())
    }
}

fn digest_of(token: &[u8]) -> Result<Digest, &'static str> {
    if let Some(digits) = token.strip_prefix(HASHED) {
        return decode(digits).ok_or("after `sha256:` must come 64 hexadecimal digits");
    }
    match token.len() {
        0 => Err("must not be empty"),
        n if n > MAX_TOKEN_BYTES => Err("is longer than 4096 bytes"),
        _ if token.iter().all(u8::is_ascii_graphic) => Ok(sha256(token)),
        _ => Err("holds a blank or a character that no header can carry"),
    }
}

fn decode(digits: &[u8]) -> Option<Digest> {
    let digits: &[u8; 64] = digits.try_into().ok()?;
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |at: usize| char::from(pair[at]).to_digit(16);
        *byte = u8::try_from(digit(0)? * 16 + digit(1)?).ok()?;
    }
    Some(bytes)
}

fn name(bytes: &[u8]) -> Result<String, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())?;
    if text.contains(['\n', '\r']) {
        return Err("goes over several lines: is a quote not closed?".to_owned());
    }
    if text.contains(escape::steers) {
        return Err("holds a control character".to_owned());
    }
    if text.len() > MAX_NAME_BYTES {
        return Err(format!("is longer than {MAX_NAME_BYTES} bytes"));
    }
    Ok(text.to_owned())
}

/// The groups in a column, separated by commas.
fn groups_of(column: &[u8]) -> Result<Box<[Box<str>]>, String> {
    if column.is_empty() {
        return Ok(Box::default());
    }
    let groups = column.split(|byte| *byte == b',').map(|group| {
        let group = name(group)?;
        if group.trim() != group || group.is_empty() {
            return Err("a group is empty or has a blank beside it".to_owned());
        }
        match role_of_group(&group) {
            Some(Err(_)) => Err(format!("`{group}` gives no role: there are {}", Role::names())),
            Some(Ok(_)) | None => Ok(group.into()),
        }
    });
    groups.collect()
}

#[cfg(test)]
mod tests;
