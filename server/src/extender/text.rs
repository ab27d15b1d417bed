//! Writes JSON text straight into a buffer.

/// Writes a string with its quotes.
pub(crate) fn string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text;
    // Hardly any name contains one of these.
    while let Some(at) = rest.bytes().position(|byte| byte < 0x20 || byte == b'"' || byte == b'\\')
    {
        let (plain, special) = rest.split_at(at);
        out.extend_from_slice(plain.as_bytes());
        let byte = special.as_bytes()[0];
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            _ => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
        }
        rest = &special[1..];
    }
    out.extend_from_slice(rest.as_bytes());
    out.push(b'"');
}

/// Writes a comma unless the list or object whose opening bracket is at `opened - 1` is still empty.
pub(crate) fn comma(out: &mut Vec<u8>, opened: usize) {
    if out.len() > opened {
        out.push(b',');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_come_back_as_they_were() {
        for text in ["", "small-0", "a\"b\\c", "\u{0}\n\t\u{1f}\u{7f}", "ж日本\u{2028}", "\\\"\\"]
        {
            let mut out = Vec::new();
            string(&mut out, text);
            let read: String = serde_json::from_slice(&out).unwrap();
            assert_eq!(read, text);
        }
    }
}
