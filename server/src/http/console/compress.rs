//! Compression of answers, for clients that take it.

use std::io::Write as _;

use axum::http::HeaderMap;
use axum::http::header::ACCEPT_ENCODING;
use flate2::Compression;
use flate2::write::GzEncoder;

/// The bytes in gzip.
pub(super) fn gzip(bytes: &[u8], level: Compression) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), level);
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// Whether the client takes an answer in gzip.
pub(super) fn takes_gzip(headers: &HeaderMap) -> bool {
    let listed = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    listed.flat_map(|value| value.split(',')).any(|element| {
        let mut parts = element.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        let weight = parts.find_map(|part| part.strip_prefix("q=")).unwrap_or("1");
        is_gzip && weight.parse::<f32>().is_ok_and(|weight| weight > 0.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use flate2::read::GzDecoder;
    use std::io::Read as _;

    #[test]
    fn what_is_compressed_can_be_read() {
        let text = "a node ".repeat(999);
        let bytes = gzip(text.as_bytes(), Compression::fast()).unwrap();
        let mut read = String::new();
        GzDecoder::new(&*bytes).read_to_string(&mut read).unwrap();
        assert!(read == text && bytes.len() < text.len() / 9);
    }

    #[test]
    fn only_who_asks_gets_gzip() {
        let takes = |value: &'static str| {
            takes_gzip(&HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(value))]))
        };
        for value in ["gzip", "deflate, GZIP;q=0.5", "br,gzip ; q=1"] {
            assert!(takes(value), "{value}");
        }
        for value in ["", "br", "gzip;q=0", "gzip;q=0.000", "gzip;q=x", "xgzip", "*"] {
            assert!(!takes(value), "{value}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }
}
