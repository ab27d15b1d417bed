//! The committed corpora: for each target one text file `corpus/TARGET.txt` with an input on each line.
//!
//! Bytes other than printable ASCII are escaped. A line that starts with `#` is a comment; a comment directly before an
//! input is its name, which says what was wrong or that the input was written by hand (`seed-…`).

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// An input of a corpus.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Input {
    /// The name from the comment before the line; empty for most inputs that libFuzzer found.
    pub name: String,
    /// The bytes that the decoder gets.
    pub bytes: Vec<u8>,
}

/// Returns the path of a target's corpus.
#[must_use]
pub fn path(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(format!("{target}.txt"))
}

/// Reads the committed corpus of a target.
///
/// # Errors
///
/// If the file cannot be read, or a line is not escaped correctly.
pub fn read(target: &str) -> io::Result<Vec<Input>> {
    parse(&fs::read_to_string(path(target))?)
}

/// Adds the files of a folder to the corpus of a target. Inputs that the corpus has already are skipped. Returns the
/// number of added inputs.
///
/// The name of a file becomes the name of its input, unless it is a hash, as libFuzzer's names are.
///
/// # Errors
///
/// If a file cannot be read, or the corpus cannot be read or written.
pub fn pack(target: &str, folder: &Path) -> io::Result<usize> {
    let mut inputs = match read(target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        inputs => inputs?,
    };
    let n_before = inputs.len();
    let mut seen: HashSet<Vec<u8>> = inputs.iter().map(|input| input.bytes.clone()).collect();
    let mut files = fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<PathBuf>>>()?;
    files.sort();
    let mut added = Vec::new();
    for file in files {
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.filter(|name| !is_hash(name)).unwrap_or_default();
        added.push(Input { name, bytes: fs::read(&file)? });
    }
    // If two inputs have equal bytes, the named one is kept.
    added.sort_by_key(|input| input.name.is_empty());
    inputs.extend(added.into_iter().filter(|input| seen.insert(input.bytes.clone())));
    fs::write(path(target), format(&inputs))?;
    Ok(inputs.len() - n_before)
}

/// Writes each input of a target's corpus to a file of its own, for libFuzzer. Returns the number of files.
///
/// # Errors
///
/// If the corpus cannot be read, or a file cannot be written.
pub fn unpack(target: &str, folder: &Path) -> io::Result<usize> {
    let inputs = read(target)?;
    fs::create_dir_all(folder)?;
    for (i, input) in inputs.iter().enumerate() {
        let name = if input.name.is_empty() { format!("{i:04}") } else { input.name.clone() };
        fs::write(folder.join(name), &input.bytes)?;
    }
    Ok(inputs.len())
}

/// Whether a file name says nothing about its content: a hash with or without a prefix, or a number.
fn is_hash(name: &str) -> bool {
    let word = name.rsplit('-').next().unwrap_or_default();
    let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
    is_number || word.len() >= 12 && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Reads the text of a corpus.
///
/// # Errors
///
/// If a line is not escaped correctly.
pub fn parse(text: &str) -> io::Result<Vec<Input>> {
    let mut inputs = Vec::new();
    let mut name = "";
    for (i, line) in text.lines().enumerate() {
        if let Some(comment) = line.strip_prefix('#') {
            name = comment.trim();
            continue;
        }
        let bytes = unescape(line).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, format!("line {}: a bad escape", i + 1))
        })?;
        inputs.push(Input { name: std::mem::take(&mut name).to_owned(), bytes });
    }
    Ok(inputs)
}

/// Writes the text of a corpus.
#[must_use]
pub fn format(inputs: &[Input]) -> String {
    let mut text = String::new();
    for Input { name, bytes } in inputs {
        if !name.is_empty() {
            text.push_str("# ");
            text.push_str(name);
            text.push('\n');
        }
        text.push_str(&escape(bytes));
        text.push('\n');
    }
    text
}

/// Writes bytes as printable ASCII in one line: `\\`, `\n`, `\r`, `\t`, and `\xNN` for other bytes.
///
/// A `#` at the start and a space at the end are escaped, so that a line is neither a comment nor trimmed by an editor.
fn escape(bytes: &[u8]) -> String {
    let mut line = String::new();
    for (i, byte) in bytes.iter().enumerate() {
        let is_first = i == 0;
        let is_last = i + 1 == bytes.len();
        match byte {
            b'\\' => line.push_str("\\\\"),
            b'\n' => line.push_str("\\n"),
            b'\r' => line.push_str("\\r"),
            b'\t' => line.push_str("\\t"),
            b'#' if is_first => line.push_str("\\x23"),
            b' ' if is_last => line.push_str("\\x20"),
            b' '..=b'~' => line.push(char::from(*byte)),
            _ => write!(line, "\\x{byte:02x}").expect("a String takes everything"),
        }
    }
    line
}

/// Returns the bytes of an escaped line, or `None` if an escape is unknown or incomplete.
fn unescape(line: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = line.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'\\' {
            bytes.push(*byte);
            continue;
        }
        let (kind, after) = rest.split_first()?;
        rest = after;
        bytes.push(match kind {
            b'\\' => b'\\',
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'x' => {
                let (digits, after) = rest.split_at_checked(2)?;
                rest = after;
                u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?
            }
            _ => return None,
        });
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{Input, escape, format, is_hash, parse, unescape};

    #[test]
    fn every_byte_survives() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(unescape(&escape(&all)), Some(all));
        for byte in 0..=255_u8 {
            for bytes in [vec![byte], vec![byte; 2], vec![b'a', byte], vec![byte, b'1']] {
                let line = escape(&bytes);
                assert!(line.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{line}");
                assert!(!line.starts_with('#') && !line.ends_with(' '), "{line}");
                assert_eq!(unescape(&line), Some(bytes), "{line}");
            }
        }
    }

    #[test]
    fn names_and_empty_inputs_survive() {
        let input = |name: &str, bytes: &[u8]| Input { name: name.into(), bytes: bytes.into() };
        let inputs = [input("seed-1", b"# a\n"), input("", b""), input("no-digits", b"x ")];
        let text = "# seed-1\n\\x23 a\\n\n\n# no-digits\nx\\x20\n";
        assert_eq!(format(&inputs), text);
        assert_eq!(parse(text).unwrap(), inputs);
    }

    #[test]
    fn unknown_escapes_are_refused() {
        for line in ["\\", "\\q", "\\x", "\\x1", "\\xg0"] {
            assert_eq!(unescape(line), None, "{line}");
        }
        assert!(parse("a\n\\q\n").unwrap_err().to_string().starts_with("line 2: "));
    }

    #[test]
    fn hashes_are_no_names() {
        let hash = "da39a3ee5e6b4b0d3255bfef95601890afd80709";
        assert!(
            is_hash(hash) && is_hash(&format!("crash-{hash}")) && is_hash("found-95fbd1c8358b")
        );
        assert!(is_hash("0007") && !is_hash("seed-1") && !is_hash("many-zeros-in-front"));
    }
}
