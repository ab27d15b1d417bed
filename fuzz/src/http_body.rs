//! Bodies of the calls below `/v1`: the first byte chooses the call, the second the type and the query.

use berth_server::in_process::InProcess;
use berth_server::lifecycle::FUNCTIONS;
use serde_json::Value;

use crate::served;

const CALLS: [&str; 15] = [
    "place",
    "place-batch",
    "explain",
    "preempt",
    "list-candidates",
    "headroom",
    "drain",
    "scale-up",
    "fit",
    "consolidate",
    "scale-in",
    "sessions/open",
    "sessions/apply",
    "sessions/commit",
    "sessions/close",
];
/// Calls after those of the lifecycle functions, so that older inputs keep their meaning.
const LATER: [&str; 4] =
    ["assumed/release", "assumed/list", "ledger/acquire-identity", "ledger/attach-volume"];
const TYPES: [&str; 3] =
    ["application/json", "application/yaml", "application/x-www-form-urlencoded"];
const QUERIES: [&str; 10] = [
    "",
    "mode=assume",
    "nodeNames=n0,n1&tieBreak=lexicographic",
    "limit=3&maxNodes=1",
    "now=2026-01-01T00:00:00Z",
    "options.victimPlacement=report&nominate",
    "gang.minCount=1&pretty",
    "tieBreak.seed=7&timeout=5s",
    "replicas=3",
    "lenient&replicas=2",
];

/// Checks a call and its body.
pub fn run(data: &[u8]) {
    let [call, variant, body @ ..] = data else { return };
    let path = path(*call);
    let (content_type, query) = variant_of(*variant);
    let translated = InProcess::translated(&path, query, content_type, body);
    let again = InProcess::translated(&path, query, content_type, body);
    assert_eq!(translated, again, "{path}");
    match &translated {
        Err(reason) => {
            assert!(!reason.is_empty() && reason.len() < 4 << 10, "{} bytes", reason.len());
        }
        Ok(accepted) => {
            // A request is what its JSON form says, which reads as the same request.
            if let Some(json) = &accepted.json {
                let read =
                    InProcess::translated(accepted.path, "", "application/json", json.as_bytes());
                assert_eq!(read.as_ref(), Ok(accepted), "{path}: {json}");
            }
        }
    }
    if !is_chosen(data) {
        return;
    }
    let target = if query.is_empty() { path.clone() } else { format!("{path}?{query}") };
    let answer = served::post_as(&target, content_type, body);
    let json: Value = serde_json::from_slice(&answer.body).expect("an answer is JSON");
    // A DaemonSet has no pods in an empty cluster, and a pod on each node of the server's.
    let is_of_nodes = translated
        .as_ref()
        .is_err_and(|reason| reason.starts_with("DaemonSet ") && reason.contains(" makes no pods"));
    match answer.status {
        200 => {
            assert!(json.is_object() && (translated.is_ok() || is_of_nodes), "{target}: {json}");
        }
        400 | 404 | 409 | 429 | 501 => {
            let error = &json["error"];
            let text = |key: &str| error[key].as_str().unwrap_or_default();
            assert!(!text("code").is_empty() && !text("message").is_empty(), "{target}: {json}");
            if let (Err(reason), false) = (&translated, is_of_nodes) {
                assert_eq!((answer.status, text("message")), (400, reason.as_str()), "{target}");
            }
        }
        status => panic!("{target}: status {status}: {json}"),
    }
}

fn path(call: u8) -> String {
    match CALLS.get(usize::from(call)) {
        Some(name) => format!("/v1/{name}"),
        None => {
            let index = (usize::from(call) - CALLS.len()) % (FUNCTIONS.len() + LATER.len());
            match FUNCTIONS.get(index) {
                Some(function) => format!("/v1/lifecycle/{}", function.name),
                None => format!("/v1/{}", LATER[index - FUNCTIONS.len()]),
            }
        }
    }
}

fn variant_of(variant: u8) -> (&'static str, &'static str) {
    let variant = usize::from(variant);
    (TYPES[variant % TYPES.len()], QUERIES[variant / TYPES.len() % QUERIES.len()])
}

/// Whether an input is one of the sixteenth that a server answers, always the same ones.
fn is_chosen(data: &[u8]) -> bool {
    let sum = data.iter().fold(0_u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(*byte));
    sum.is_multiple_of(16)
}
