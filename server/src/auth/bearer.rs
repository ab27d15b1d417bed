//! Bearer: the token of the header `authorization` (RFC 6750, section 2.1).

use http::HeaderMap;
use http::header::AUTHORIZATION;

/// Longest header that is considered, in bytes: no token of a file is longer.
const MAX_BYTES: usize = super::token::MAX_TOKEN_BYTES + 64;

/// The bearer token in the headers; `None` if they have no credential at all.
///
/// # Errors
/// The error in the credential.
pub(super) fn token(headers: &HeaderMap) -> Result<Option<&[u8]>, &'static str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err("there is more than one header `authorization`");
    }
    let value = value.as_bytes().trim_ascii();
    if value.len() > MAX_BYTES {
        return Err("the header `authorization` is too long for a bearer token");
    }
    let (scheme, token) = match value.iter().position(|byte| *byte == b' ') {
        Some(end) => (&value[..end], value[end..].trim_ascii_start()),
        None => (value, &[][..]),
    };
    if !scheme.eq_ignore_ascii_case(b"bearer") {
        return Err(
            "the header `authorization` must be `Bearer TOKEN`: no other scheme is known here",
        );
    }
    if token.is_empty() {
        return Err("the header `authorization` says `Bearer` and no token");
    }
    Ok(Some(token))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn of(values: &[&str]) -> Result<Option<String>, &'static str> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        }
        token(&headers).map(|token| token.map(|token| String::from_utf8(token.to_vec()).unwrap()))
    }

    #[test]
    fn only_one_bearer_token_is_taken() {
        assert_eq!(of(&[]), Ok(None));
        for value in ["Bearer abc", "bearer   abc ", " BEARER abc"] {
            assert_eq!(of(&[value]), Ok(Some("abc".to_owned())), "{value}");
        }
        let long = format!("Bearer {}", "x".repeat(MAX_BYTES));
        for (values, expected) in [
            (&["Bearer a", "Bearer a"][..], "more than one"),
            (&["Basic YTpi"], "no other scheme"),
            (&["abc"], "no other scheme"),
            (&[""], "no other scheme"),
            (&["Bearer"], "no token"),
            (&["Bearer  "], "no token"),
            (&[&long], "too long"),
        ] {
            let error = of(values).unwrap_err();
            assert!(error.contains(expected), "{values:?}: {error}");
        }
    }
}
