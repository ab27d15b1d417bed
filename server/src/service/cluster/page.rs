//! Pages of a sorted list: the token is the last name of a page, so that a change between two pages neither repeats
//! nor skips what did not change.

use berth_engine::PodKey;

use crate::service::CallError;

const DEFAULT_PAGE_SIZE: usize = 500;
const MAX_PAGE_SIZE: usize = 5_000;
/// Maximum length of a token: two names of at most 253 characters and a separator, with room to spare.
const MAX_TOKEN_BYTES: usize = 2_048;

/// The number of entries on a page (cluster.proto: 0 means 500, more than 5,000 is cut).
pub(in crate::service) fn size(requested: u32) -> usize {
    match usize::try_from(requested).unwrap_or(MAX_PAGE_SIZE) {
        0 => DEFAULT_PAGE_SIZE,
        requested => requested.min(MAX_PAGE_SIZE),
    }
}

/// The opaque form of the last name of a page: its bytes in hexadecimal.
pub(in crate::service) fn token(name: &str) -> String {
    name.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// The name in a token; `None` for the first page.
pub(in crate::service) fn parse_token(token: &str) -> Result<Option<String>, CallError> {
    if token.is_empty() {
        return Ok(None);
    }
    let bad = || CallError::field("page_token", "is not a token of an earlier page");
    if !token.len().is_multiple_of(2) || token.len() > MAX_TOKEN_BYTES {
        return Err(bad());
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).filter(|_| !byte.is_ascii_uppercase());
    let bytes: Option<Vec<u8>> = token
        .as_bytes()
        .chunks_exact(2)
        .map(|pair| u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok())
        .collect();
    let name = bytes.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(bad)?;
    Ok(Some(name))
}

/// The pod in a token; `None` for the first page.
pub(in crate::service) fn parse_pod_token(token: &str) -> Result<Option<PodKey>, CallError> {
    let Some(name) = parse_token(token)? else { return Ok(None) };
    let bad = || CallError::field("page_token", "is not a token of an earlier page");
    let (namespace, name) = name.split_once('/').ok_or_else(bad)?;
    Ok(Some(PodKey::new(namespace, name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_gives_its_name_back() {
        for name in ["n", "node-1", "default/web-0", "ü"] {
            assert_eq!(parse_token(&token(name)).unwrap().as_deref(), Some(name));
        }
        assert_eq!(parse_token("").unwrap(), None);
    }

    #[test]
    fn other_tokens_are_refused() {
        for bad in ["a", "zz", "AB", "ff", &"61".repeat(2000)] {
            let error = parse_token(bad).unwrap_err();
            assert_eq!(
                error.to_string(),
                "`page_token`: is not a token of an earlier page",
                "{bad}"
            );
        }
    }

    #[test]
    fn sizes_are_defaulted_and_cut() {
        assert_eq!(
            [size(0), size(1), size(5_000), size(5_001), size(u32::MAX)],
            [500, 1, 5_000, 5_000, 5_000]
        );
    }
}
