//! `/livez`, `/readyz` and `/healthz` as in Kubernetes: `ok`, or the failed checks with their reasons.

use std::sync::Arc;

use axum::extract::State as Shared;
use axum::http::{StatusCode, Uri};

use crate::service::State;
use crate::service::readiness::{Check, readiness};

/// Succeeds while no critical task has ended. `/healthz` is the old name of the same check.
pub(super) async fn livez(Shared(state): Shared<Arc<State>>, uri: Uri) -> (StatusCode, String) {
    let mut checks = vec![("ping", Ok(None))];
    let crashed = state.critical_tasks.crashed();
    checks
        .extend(crashed.map(|name| ("tasks", Err(format!("{name} crashed; restart the process")))));
    report(uri.path().trim_matches('/'), &checks, is_verbose(&uri))
}

/// Succeeds while the server can place pods.
pub(super) async fn readyz(Shared(state): Shared<Arc<State>>, uri: Uri) -> (StatusCode, String) {
    report("readyz", &readiness(&state), is_verbose(&uri))
}

/// Responds to an unknown path with the known ones.
pub(super) async fn not_found() -> (StatusCode, &'static str) {
    (
        StatusCode::NOT_FOUND,
        "not found; there are /livez, /readyz, /healthz, /metrics, /openapi.json with the calls below /v1, \
        /extender/{filter,prioritize,preempt,bind}, and / for people\n",
    )
}

fn is_verbose(uri: &Uri) -> bool {
    let query = uri.query().unwrap_or_default();
    query.split('&').any(|part| part == "verbose" || part.starts_with("verbose="))
}

fn report(endpoint: &str, checks: &[Check], verbose: bool) -> (StatusCode, String) {
    let passed = checks.iter().all(|(_, outcome)| outcome.is_ok());
    if passed && !verbose {
        return (StatusCode::OK, "ok".to_owned());
    }
    let mut text = String::new();
    for (name, outcome) in checks {
        text.push_str(&match outcome {
            Ok(None) => format!("[+]{name} ok\n"),
            Ok(Some(note)) => format!("[+]{name} ok: {note}\n"),
            Err(reason) => format!("[-]{name} failed: {reason}\n"),
        });
    }
    text.push_str(&format!("{endpoint} check {}\n", if passed { "passed" } else { "failed" }));
    (if passed { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_check_is_named_with_its_reason() {
        let checks = [("feed", Err("it is silent".to_owned())), ("drain", Ok(None))];
        let (code, text) = report("readyz", &checks, false);
        assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(text, "[-]feed failed: it is silent\n[+]drain ok\nreadyz check failed\n");
    }

    #[test]
    fn success_is_short_unless_verbose() {
        assert_eq!(
            report("livez", &[("ping", Ok(None))], false),
            (StatusCode::OK, "ok".to_owned())
        );
        let noted = [("feed", Ok(Some("heard of just now".to_owned())))];
        assert_eq!(
            report("readyz", &noted, true).1,
            "[+]feed ok: heard of just now\nreadyz check passed\n"
        );
        assert_eq!(
            report("livez", &[("ping", Ok(None))], true).1,
            "[+]ping ok\nlivez check passed\n"
        );
        assert!(is_verbose(&Uri::from_static("/readyz?verbose")));
        assert!(is_verbose(&Uri::from_static("/readyz?a=1&verbose=true")));
        assert!(!is_verbose(&Uri::from_static("/readyz?verbosely")));
    }
}
