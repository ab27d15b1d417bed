//! A short soak: all kinds of calls at once, cut connections among them, and every recount is exact.

use std::time::Duration;

use berth_loadgen::soak::report::Bounds;
use berth_loadgen::soak::{self, SoakSpec};

use crate::served::{Served, serve};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_seconds_of_everything_leave_the_cluster_exact() {
    let directory = tempfile::tempdir().unwrap();
    let ledger = directory.path().join("ledger");
    let served = Served::start(serve().arg("--ledger").arg(&ledger));
    let spec = SoakSpec {
        server: served.url.clone(),
        credentials: Default::default(),
        http: Some(format!("http://{}", served.http)),
        pid: Some(served.pid()),
        duration: Duration::from_secs(20),
        rate: 200.0,
        n_nodes: 20,
        n_pods: 200,
        seed: 1,
        interval: Duration::from_secs(2),
        n_attackers: 0,
        attacker_credentials: Default::default(),
        bounds: Bounds::default(),
    };
    let report = soak::run(spec, std::future::pending(), |_| ()).await.unwrap();
    let text = report.render();
    println!("{text}");
    assert_eq!(report.differences.n, 0, "{text}");
    assert!(report.is_good(), "{text}");
    // In the end no assumed pod is left.
    let last = report.samples.last().unwrap();
    assert_eq!((last.n_assumed, last.n_differences), (0, 0), "{text}");
    for done in ["recounts", "Place", "Apply", "connections cut"] {
        assert!(report.done.get(done).is_some_and(|n| *n > 0), "no {done}: {text}");
    }
    let log = served.stop();
    assert!(!log.contains("panicked"), "{log}");
}
