//! Requests that pages of other sites make in a browser. A browser sends simple requests without asking first, and with
//! the rights that the reader's machine has: on loopback, all of them.

use axum::http::HeaderMap;
use axum::http::header::{HOST, ORIGIN};

/// Header in which browsers say how the page's site relates to the site of the request.
const SEC_FETCH_SITE: &str = "sec-fetch-site";

/// Whether a page of another site sent the request. Programs other than browsers send neither header.
pub(super) fn is_of_another_site(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    if text(SEC_FETCH_SITE).is_some_and(|site| !matches!(site, "same-origin" | "none")) {
        return true;
    }
    let Some(origin) = text(ORIGIN.as_str()) else { return false };
    let authority = origin.split_once("://").map(|(_, authority)| authority);
    match (authority, text(HOST.as_str())) {
        (Some(authority), Some(host)) => !authority.eq_ignore_ascii_case(host),
        // An opaque origin is `null`.
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn is_foreign(headers: &[(&'static str, &'static str)]) -> bool {
        let pairs = headers.iter().map(|(name, value)| {
            (name.parse::<http::HeaderName>().unwrap(), HeaderValue::from_static(value))
        });
        is_of_another_site(&pairs.collect())
    }

    #[test]
    fn only_pages_of_other_sites_are_foreign() {
        let host = ("host", "127.0.0.1:7421");
        assert!(!is_foreign(&[host]));
        assert!(!is_foreign(&[host, ("origin", "http://127.0.0.1:7421")]));
        assert!(!is_foreign(&[host, ("sec-fetch-site", "same-origin")]));
        assert!(!is_foreign(&[host, ("sec-fetch-site", "none")]));
        assert!(is_foreign(&[host, ("origin", "http://evil.example")]));
        assert!(is_foreign(&[host, ("origin", "http://127.0.0.1:8000")]));
        assert!(is_foreign(&[host, ("origin", "null")]));
        assert!(is_foreign(&[("origin", "http://127.0.0.1:7421")]));
        assert!(is_foreign(&[host, ("sec-fetch-site", "cross-site")]));
        assert!(is_foreign(&[host, ("sec-fetch-site", "same-site")]));
    }
}
