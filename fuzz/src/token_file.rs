//! Token files: who presents which token, and no token in an error.

use std::path::Path;

use berth_server::auth::Tokens;
use berth_server::config::ConfigError;

use crate::work::bounded;

/// The bytes are a file.
pub fn run(data: &[u8]) {
    let path = Path::new("tokens.csv");
    let read = bounded(data.len(), 4 << 10, || Tokens::of_text(path, data, &[]));
    let tokens = match read {
        Ok(tokens) => tokens,
        Err(error) => return check(&error, data),
    };
    // Of files without quotes the lines can be told apart by eye.
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
    // The first column is a secret, unless the same stands where none is. Only a quote at its start is one.
    let text = error.to_string();
    let lines = data.split(|byte| matches!(byte, b'\n' | b'\r'));
    let lines = lines.map(|line| line.strip_prefix(b"\"").unwrap_or(line));
    let secrets = lines.filter_map(|line| line.split(|byte| matches!(byte, b',' | b'"')).next());
    for secret in secrets.filter(|secret| secret.len() >= 12 && !secret.starts_with(b"berth:")) {
        let Ok(secret) = str::from_utf8(secret) else { continue };
        // What the message itself says proves nothing: its parts have spaces.
        if secret.contains(' ') {
            continue;
        }
        let is_elsewhere = String::from_utf8_lossy(data).matches(secret).count() > 1;
        assert!(is_elsewhere || !text.contains(secret), "`{secret}` is repeated: {text}");
    }
}
