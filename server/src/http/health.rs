//! `/livez`, `/readyz` and `/healthz`, in the manner of Kubernetes' own: `ok`, or which check failed and why.

use std::sync::Arc;

use axum::extract::State as Shared;
use axum::http::{StatusCode, Uri};

use crate::grpc::State;

/// The process answers. `/healthz` is the old name of the same question.
pub(super) async fn livez(uri: Uri) -> (StatusCode, String) {
    report("livez", &[("ping", Ok(()))], is_verbose(&uri))
}

/// The process can be asked for placements.
pub(super) async fn readyz(Shared(state): Shared<Arc<State>>, uri: Uri) -> (StatusCode, String) {
    report("readyz", &readiness(&state), is_verbose(&uri))
}

type Check = (&'static str, Result<(), String>);

/// Why the server should not be asked, check by check; gRPC health is the conjunction of the same checks.
pub(crate) fn readiness(state: &State) -> [Check; 3] {
    let feed = if state.freshness.is_complete() {
        Ok(())
    } else {
        Err("no feed has completed yet".to_owned())
    };
    let n_contradictions = state.cluster.snapshot().n_contradictions();
    let contradictions = match n_contradictions {
        0 => Ok(()),
        n => Err(format!("a feed has sent {n} contradictions; a new snapshot clears them")),
    };
    let drain =
        if *state.draining.borrow() { Err("the server is draining".to_owned()) } else { Ok(()) };
    [("feed", feed), ("contradictions", contradictions), ("drain", drain)]
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
            Ok(()) => format!("[+]{name} ok\n"),
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
        let checks = [("feed", Err("no feed has completed yet".to_owned())), ("drain", Ok(()))];
        let (code, text) = report("readyz", &checks, false);
        assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(
            text,
            "[-]feed failed: no feed has completed yet\n[+]drain ok\nreadyz check failed\n"
        );
    }

    #[test]
    fn success_is_short_unless_asked() {
        assert_eq!(report("livez", &[("ping", Ok(()))], false), (StatusCode::OK, "ok".to_owned()));
        assert_eq!(
            report("livez", &[("ping", Ok(()))], true).1,
            "[+]ping ok\nlivez check passed\n"
        );
        assert!(is_verbose(&Uri::from_static("/readyz?verbose")));
        assert!(is_verbose(&Uri::from_static("/readyz?a=1&verbose=true")));
        assert!(!is_verbose(&Uri::from_static("/readyz?verbosely")));
    }
}
