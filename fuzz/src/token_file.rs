//! Token files: the user of each token, and errors that contain no token.

use std::path::Path;

use berth_server::auth::Tokens;
use berth_server::document::ConfigError;

use crate::work::bounded;

/// Checks the bytes as a file.
pub fn run(data: &[u8]) {
    let path = Path::new("tokens.csv");
    let read = bounded(data.len(), 4 << 10, || Tokens::of_text(path, data, &[]));
    let tokens = match read {
        Ok(tokens) => tokens,
        Err(error) => return check(&error, data),
    };
    // Without quotes, lines and columns can be split plainly.
    if data.contains(&b'"') {
        return;
    }
    for line in data.split(|byte| matches!(byte, b'\n' | b'\r')).filter(|line| !line.is_empty()) {
        let columns: Vec<&[u8]> = line.split(|byte| *byte == b',').collect();
        assert!(matches!(columns.len(), 3 | 4), "{}", line.escape_ascii());
        if !columns[0].starts_with(b"sha256:") {
            let holder = tokens.holder(columns[0]).expect("the token is known");
            assert_eq!(holder.user.as_bytes(), columns[1], "{}", line.escape_ascii());
            assert_eq!(
                holder.groups.len(),
                usize::from(columns.get(3).is_some_and(|g| !g.is_empty()))
            );
        }
    }
    assert!(tokens.holder(b"").is_none() && tokens.holder(b"nobody's").is_none());
}

fn check(error: &ConfigError, data: &[u8]) {
    let ConfigError::Invalid { problems, .. } = error else { panic!("{error}") };
    assert!((1..=20).contains(&problems.len()), "{error}");
    let n_lines = data.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
    for problem in problems {
        assert!(!problem.reason.is_empty() && problem.line <= n_lines, "{problem:?}");
    }
    // The error for other tokens of equal length and form is the same, so it contains none of them.
    let masked = with_tokens_rotated(data);
    let said = Tokens::of_text(Path::new("tokens.csv"), &masked, &[]).err();
    assert_eq!(said.map(|said| said.to_string()), Some(error.to_string()));
}

/// The file with the letters of each first column rotated by 13, except a column that is or may become a hash. A line
/// may belong to a quoted column, which no message repeats if it has a line break.
fn with_tokens_rotated(data: &[u8]) -> Vec<u8> {
    let lines = data.split_inclusive(|byte| matches!(byte, b'\n' | b'\r'));
    lines.flat_map(|line| with_token_rotated(line.to_vec())).collect()
}

fn with_token_rotated(mut line: Vec<u8>) -> Vec<u8> {
    // Skips quotes, and the byte order mark at the start of a file.
    let start = line.iter().take_while(|byte| matches!(byte, b'"' | 0xEF | 0xBB | 0xBF)).count();
    let rest = &mut line[start..];
    let length = rest.iter().take_while(|byte| !matches!(byte, b',' | b'"')).count();
    let token = &mut rest[..length];
    let may_be_hash = |token: &[u8]| {
        [&b"sha256:"[..], b"fun256:"]
            .iter()
            .any(|prefix| token.starts_with(prefix) || prefix.starts_with(token))
    };
    if !may_be_hash(token) {
        token.iter_mut().for_each(|byte| *byte = rotated(*byte));
    }
    line
}

fn rotated(byte: u8) -> u8 {
    match byte {
        b'a'..=b'z' => (byte - b'a' + 13) % 26 + b'a',
        b'A'..=b'Z' => (byte - b'A' + 13) % 26 + b'A',
        _ => byte,
    }
}
