//! Limits of the size of a request and of the time for an answer.

use std::time::{Duration, Instant};

use berth_proto::grpcplugin::{BestOptionsRequest, Option as Offer};
use tonic::{Code, Request};

use crate::expander::world::{Identity, World, pod};

/// A request with two options whose pods take about `n_mib` MiB.
fn large(n_mib: usize) -> BestOptionsRequest {
    let mut heavy = pod("heavy", "1", "1Gi");
    let annotations = &mut heavy.metadata.as_mut().unwrap().annotations;
    annotations.insert("note".to_owned(), "x".repeat((1 << 20) - 1_000));
    let bytes = prost::Message::encode_to_vec(&heavy);
    let option = |id: &str, n: usize| Offer {
        node_group_id: id.to_owned(),
        node_count: 1,
        pod_bytes: vec![bytes.clone(); n],
        ..Offer::default()
    };
    let options = vec![option("less", n_mib / 2 - 1), option("more", n_mib - n_mib / 2)];
    BestOptionsRequest { options, ..BestOptionsRequest::default() }
}

#[tokio::test]
async fn a_hundred_megabytes_are_taken() {
    let identity = Identity::new();
    let mut world = World::with_tls("  strategies: [most-pods]", &identity).await;
    world.check(large(120), &["more"]).await;
}

#[tokio::test]
async fn more_than_the_bound_is_refused_with_the_bound() {
    let mut world = World::start("").await;
    let status = world.best(large(132)).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert_eq!(status.message(), "the message is larger than the limit of 134217728 bytes");
    // The connection can still be used.
    world.check(BestOptionsRequest::default(), &[]).await;
}

#[tokio::test]
async fn a_deadline_is_kept() {
    let mut world = World::start("  strategies: [least-waste]").await;
    let mut request = Request::new(large(60));
    request.set_timeout(Duration::from_millis(5));
    let started = Instant::now();
    let status = world.client.best_options(request).await.unwrap_err();
    assert!(matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled), "{status:?}");
    assert!(started.elapsed() < Duration::from_secs(5));
}

/// Empty pods are two bytes each on the wire and hundreds each when they are decoded.
#[tokio::test]
async fn more_than_any_cluster_has_is_refused() {
    let mut world = World::start("  strategies: [most-pods]").await;
    let pods = Offer { pod_bytes: vec![Vec::new(); 1_000_001], ..Offer::default() };
    let options = (0..=10_000).map(|i| Offer { node_group_id: i.to_string(), ..Offer::default() });
    for (options, expected) in [
        (vec![pods], "the request holds more than 1000000 pods"),
        (options.collect(), "the request holds more than 10000 options"),
    ] {
        let request = BestOptionsRequest { options, ..BestOptionsRequest::default() };
        let status = world.best(request).await.unwrap_err();
        assert_eq!((status.code(), status.message()), (Code::ResourceExhausted, expected));
    }
}
