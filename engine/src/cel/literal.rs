//! Literals of numbers, strings and bytes.

use super::word::Word;

/// Reads a string or bytes literal at the start of a text, with its length. `None` if there is none.
pub(crate) fn read_string(text: &str) -> Result<Option<(Word, usize)>, String> {
    let (is_bytes, rest) = match text.strip_prefix(['b', 'B']) {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (is_raw, rest) = match rest.strip_prefix(['r', 'R']) {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let quote = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| rest.starts_with(quote));
    let Some(quote) = quote else { return Ok(None) };
    let start = text.len() - rest.len() + quote.len();
    let body = &text[start..];
    let length = body_length(body, quote, is_raw).ok_or("Syntax error: string is not closed")?;
    let end = start + length + quote.len();
    // A carriage return before a line feed is dropped, as upstream's reader does.
    let body = &body[..length];
    if is_bytes {
        let bytes = if is_raw { body.as_bytes().to_vec() } else { unescape(body, true)? };
        return Ok(Some((Word::Bytes(bytes), end)));
    }
    let string = if is_raw {
        body.to_owned()
    } else {
        String::from_utf8(unescape(body, false)?).map_err(|_| "invalid escape")?
    };
    Ok(Some((Word::String(string), end)))
}

/// The length of a literal's text up to its closing quote.
fn body_length(body: &str, quote: &str, is_raw: bool) -> Option<usize> {
    let is_long = quote.len() == 3;
    let mut at = 0;
    while at < body.len() {
        let rest = &body[at..];
        if rest.starts_with(quote) {
            return Some(at);
        }
        let c = rest.chars().next()?;
        if !is_long && matches!(c, '\n' | '\r') {
            return None;
        }
        at += c.len_utf8();
        if c == '\\' && !is_raw {
            at += body[at..].chars().next()?.len_utf8();
        }
    }
    None
}

fn unescape(body: &str, is_bytes: bool) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(body.len());
    let mut rest = body;
    while let Some(at) = rest.find('\\') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        rest =
            escape(&rest[at + 1..], is_bytes, &mut bytes).ok_or("Syntax error: invalid escape")?;
    }
    bytes.extend_from_slice(rest.as_bytes());
    Ok(bytes)
}

/// Reads what follows a backslash, and returns the rest.
fn escape<'t>(text: &'t str, is_bytes: bool, bytes: &mut Vec<u8>) -> Option<&'t str> {
    let c = text.chars().next()?;
    let rest = &text[c.len_utf8()..];
    let plain = match c {
        'a' => 7,
        'b' => 8,
        'f' => 12,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 11,
        '\\' | '?' | '"' | '\'' | '`' => u8::try_from(c).ok()?,
        'x' | 'X' => return code(rest, 2, 16, is_bytes, bytes),
        'u' if !is_bytes => return code(rest, 4, 16, false, bytes),
        'U' if !is_bytes => return code(rest, 8, 16, false, bytes),
        '0'..='3' => return code(text, 3, 8, is_bytes, bytes),
        _ => return None,
    };
    bytes.push(plain);
    Some(rest)
}

fn code<'t>(
    text: &'t str,
    n_digits: usize,
    radix: u32,
    is_byte: bool,
    bytes: &mut Vec<u8>,
) -> Option<&'t str> {
    let digits = text.get(..n_digits).filter(|digits| digits.chars().all(|c| c.is_digit(radix)))?;
    let code = u32::from_str_radix(digits, radix).ok()?;
    if is_byte {
        bytes.push(u8::try_from(code).ok()?);
    } else {
        let c = char::from_u32(code)?;
        bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Some(&text[n_digits..])
}

/// Reads a number at the start of a text, with its length.
pub(crate) fn read_number(text: &str) -> Result<(Word, usize), String> {
    let is_unsigned = |length: usize| text[length..].starts_with(['u', 'U']);
    if let Some(hex) = text.strip_prefix("0x") {
        let n_digits = hex.bytes().take_while(u8::is_ascii_hexdigit).count();
        if n_digits > 0 {
            let value = u64::from_str_radix(&hex[..n_digits], 16);
            return integer(value.ok(), n_digits + 2, is_unsigned(n_digits + 2));
        }
    }
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let n_whole = digits(text);
    let mut length = n_whole;
    if let Some(fraction) = text[length..].strip_prefix('.')
        && digits(fraction) > 0
    {
        length += 1 + digits(fraction);
    }
    if let Some(exponent) = text[length..].strip_prefix(['e', 'E']) {
        let unsigned = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        if digits(unsigned) > 0 {
            length += 1 + (exponent.len() - unsigned.len()) + digits(unsigned);
        }
    }
    if length == n_whole {
        return integer(text[..length].parse().ok(), length, is_unsigned(length));
    }
    let value: f64 = text[..length].parse().map_err(|_| "invalid double literal")?;
    if value.is_infinite() {
        return Err("invalid double literal".to_owned());
    }
    Ok((Word::Double(value), length))
}

fn integer(value: Option<u64>, length: usize, is_unsigned: bool) -> Result<(Word, usize), String> {
    let value = value.ok_or("invalid int literal")?;
    Ok(if is_unsigned { (Word::Uint(value), length + 1) } else { (Word::Int(value), length) })
}
