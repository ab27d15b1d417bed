//! Site: refuses requests that pages of other sites make in a browser. A browser sends simple requests without asking
//! first, and with the rights that the reader's machine has: on loopback, all of them. A page whose name leads to
//! loopback by its own DNS is of the same site for the browser, and shows in `Host`. A link to the console may stand
//! anywhere: its files are the same for everybody.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State as Shared};
use axum::http::header::{CONTENT_TYPE, HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::console;
use super::v1::Failure;
use crate::net::Peer;
use crate::service::State;

/// Header in which browsers say how the page's site relates to the site of the request.
const SEC_FETCH_SITE: &str = "sec-fetch-site";

/// Passes a request to its handler unless another site may have sent it.
pub(super) async fn check(
    Shared(state): Shared<Arc<State>>,
    request: Request,
    next: Next,
) -> Response {
    let headers = request.headers();
    let peer = request.extensions().get::<Arc<Peer>>().and_then(|peer| peer.address);
    // Where callers are asked who they are, a page has no credential to send.
    let is_trusting = state.auth.is_open() && peer.is_none_or(|peer| peer.ip().is_loopback());
    let refused = if headers.get_all(HOST).iter().count() > 1 {
        Some(Failure::invalid("the header `Host` stands there more than once"))
    } else if is_of_another_site(headers) && !console::is_asset(request.uri().path()) {
        Some(Failure::other_site())
    } else if is_trusting && !names_this_machine(headers) {
        Some(Failure::other_host())
    } else if is_of_extender(&request) && !is_json(headers) {
        Some(Failure::unsupported_type("an extender call needs `Content-Type: application/json`"))
    } else {
        None
    };
    match refused {
        None => next.run(request).await,
        Some(failure) if request.uri().path().starts_with("/v1/") => failure.response(),
        Some(failure) => text(&failure).into_response(),
    }
}

fn text(failure: &Failure) -> (StatusCode, String) {
    (failure.status(), format!("{}\n", failure.message()))
}

/// Whether the request names its host by an address or as `localhost`, or does not name it: no page has such a name.
fn names_this_machine(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST) else { return true };
    let host = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok());
    host.is_some_and(|authority| {
        let host = authority.host().trim_matches(['[', ']']).trim_end_matches('.');
        let is_local = |name: &str| name.eq_ignore_ascii_case("localhost");
        is_local(host)
            || host.rsplit_once('.').is_some_and(|(_, domain)| is_local(domain))
            || host.parse::<IpAddr>().is_ok()
    })
}

/// Whether the request is a call of the extender. Other paths below it are not found.
fn is_of_extender(request: &Request) -> bool {
    let verb = request.uri().path().strip_prefix("/extender/");
    request.method() == Method::POST
        && verb.is_some_and(|verb| matches!(verb, "filter" | "prioritize" | "preempt" | "bind"))
}

fn is_json(headers: &HeaderMap) -> bool {
    let given = headers.get(CONTENT_TYPE).and_then(|given| given.to_str().ok()).unwrap_or_default();
    let essence = given.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

/// Whether a page of another site sent the request. Programs other than browsers send neither header.
fn is_of_another_site(headers: &HeaderMap) -> bool {
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

    #[test]
    fn names_of_other_machines_are_told_apart() {
        let names = |host: &'static str| {
            names_this_machine(&HeaderMap::from_iter([(HOST, HeaderValue::from_static(host))]))
        };
        for host in
            ["localhost", "LOCALHOST:7421", "a.localhost", "127.0.0.1:7421", "[::1]:1", "10.0.0.7"]
        {
            assert!(names(host), "{host}");
        }
        for host in
            ["evil.example", "localhost.evil.example:7421", "127.0.0.1.evil.example", "", "a b"]
        {
            assert!(!names(host), "{host}");
        }
        assert!(names_this_machine(&HeaderMap::new()));
    }
}
