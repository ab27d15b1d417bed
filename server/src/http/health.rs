//! `/livez`, `/readyz` and `/healthz`, in the manner of Kubernetes' own: `ok`, or which check failed and why.

use std::sync::Arc;

use axum::extract::State as Shared;
use axum::http::{StatusCode, Uri};

use crate::apiserver::lease::Leadership;
use crate::grpc::State;
use crate::{clock, escape};

/// The process answers, and nothing that it cannot do without has ended. `/healthz` is the old name of the same question.
pub(super) async fn livez(Shared(state): Shared<Arc<State>>, uri: Uri) -> (StatusCode, String) {
    let mut checks = vec![("ping", Ok(None))];
    checks.extend(state.broken.get().map(|what| {
        ("tasks", Err(format!("{what} ended by an error of its own: restart this process")))
    }));
    report(uri.path().trim_matches('/'), &checks, is_verbose(&uri))
}

/// The process can be asked for placements.
pub(super) async fn readyz(Shared(state): Shared<Arc<State>>, uri: Uri) -> (StatusCode, String) {
    report("readyz", &readiness(&state), is_verbose(&uri))
}

/// A check's name, and what may be said of it in passing, or why it failed.
type Check = (&'static str, Result<Option<String>, String>);

/// Why the server should not be asked, check by check; gRPC health is the conjunction of the same checks.
pub(crate) fn readiness(state: &State) -> Vec<Check> {
    let feed = match state.freshness.watches() {
        Some(watches) => watches.report(clock::now()).map(Some),
        None => {
            state.freshness.check_decidable().map(|()| None).map_err(|reason| reason.to_string())
        }
    };
    let contradictions = contradictions(state.cluster.snapshot().n_contradictions());
    let drain =
        if *state.draining.borrow() { Err("the server is draining".to_owned()) } else { Ok(None) };
    let mut checks =
        vec![("feed", feed), ("contradictions", contradictions.map(|()| None)), ("drain", drain)];
    checks.extend(state.audit.fault().map(|reason| ("audit", Err(reason.to_string()))));
    // Nothing else needs the ledger: a server that cannot grant is as good as any to place.
    checks.extend(state.grants.fault().map(|reason| ("ledger", Ok(Some(ledger(&reason))))));
    // Who stands by is as ready as who leads.
    checks
        .extend(state.leadership.get().map(|leadership| ("leader", Ok(Some(leader(leadership))))));
    checks
}

fn leader(leadership: &Leadership) -> String {
    match (leadership.is_held(clock::now()), leadership.holder()) {
        (true, _) => "this instance leads".to_owned(),
        (false, Some(holder)) => {
            format!("`{}` leads, this instance stands by", escape::printable(&holder))
        }
        (false, None) => "nobody is known to lead, this instance stands by".to_owned(),
    }
}

fn ledger(fault: &str) -> String {
    let fault = escape::printable(fault);
    format!("pods are placed, but nothing is granted: {fault}; it is tried again every few seconds")
}

/// S-CCH-6: a feed that contradicts itself makes the instance unhealthy until it is told the cluster anew.
fn contradictions(n: u64) -> Result<(), String> {
    let what = match n {
        0 => return Ok(()),
        1 => "1 contradiction; a snapshot over `Sync`, SIGHUP (the files are read again), or a list of the API server clears it"
            .to_owned(),
        n => format!(
            "{n} contradictions; a snapshot over `Sync`, SIGHUP (the files are read again), or a list of the API server clears them"
        ),
    };
    Err(format!("a feed has sent {what}"))
}

/// There is nothing else here; says what there is.
pub(super) async fn not_found() -> (StatusCode, &'static str) {
    (
        StatusCode::NOT_FOUND,
        "not found; there are /livez, /readyz, /healthz, /metrics and /extender/{filter,prioritize,preempt,bind}\n",
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
    fn contradictions_are_counted_in_grammar() {
        assert_eq!(contradictions(0), Ok(()));
        assert!(contradictions(1).unwrap_err().starts_with("a feed has sent 1 contradiction;"));
        assert!(contradictions(2).unwrap_err().starts_with("a feed has sent 2 contradictions;"));
    }

    #[test]
    fn success_is_short_unless_asked() {
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
