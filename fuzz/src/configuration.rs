//! Configuration that operators write: Berth's own, kube-scheduler's, and values of any shape.

use std::path::Path;

use berth_engine::KubernetesVersion;
use berth_server::config::file;
use berth_server::document::{ConfigError, tree as document};
use berth_server::policy;

use crate::dump::n_lines;
use crate::work::bounded;

/// Checks the bytes as the text of a configuration. A YAML reader allocates a few tables for each level.
pub fn run(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let n_bytes = text.len() + 512;
    let parsed = bounded(n_bytes, 8 << 10, || document::parse(text));
    if let Err(problem) = &parsed {
        assert!(!problem.reason.is_empty() && problem.line <= n_lines(text) + 1, "{problem:?}");
    }
    if text.contains("Berth") {
        let own = bounded(n_bytes, 16 << 10, || file::from_text("own", Path::new("/etc"), text));
        return check(own.map(|_| ()), text, parsed.is_ok());
    }
    let read = bounded(n_bytes, 16 << 10, || {
        policy::from_text("scheduler", text, KubernetesVersion::V1_37)
    });
    let policies = match read {
        Ok(policies) => policies,
        Err(error) => return check(Err(error), text, parsed.is_ok()),
    };
    assert!(parsed.is_ok() && !policies.is_empty());
    // Equal texts give equal policies, and every policy has the name of its scheduler.
    let again = policy::from_text("scheduler", text, KubernetesVersion::V1_37).unwrap();
    for (policy, again) in policies.iter().zip(&again) {
        assert_eq!(format!("{:?}", policy.spec()), format!("{:?}", again.spec()));
        assert!(!policy.spec().scheduler_name.is_empty());
    }
}

/// Checks that errors have a place and a reason, and that a document that cannot be parsed is refused.
fn check(read: Result<(), ConfigError>, text: &str, is_document: bool) {
    match read {
        Ok(()) => assert!(is_document),
        Err(ConfigError::Syntax { problem, .. }) => assert!(!is_document, "{problem:?}"),
        Err(ConfigError::Invalid { problems, .. }) => {
            assert!(is_document && !problems.is_empty());
            for problem in problems {
                assert!(!problem.reason.is_empty(), "{problem:?}");
                assert!(problem.line <= n_lines(text), "{problem:?}");
            }
        }
        Err(error) => panic!("{error}"),
    }
}
