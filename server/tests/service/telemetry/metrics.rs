//! `/metrics` in both formats.

use berth_server::runtime::ServerOptions;
use tonic::metadata::MetadataMap;

use crate::telemetry::exposition::{self, MetricType};
use crate::telemetry::world::{World, scrape};

const PROTOBUF: &str =
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
const PLACE: &str = "/berth.v1.PlacementService/Place";

#[tokio::test]
async fn the_text_is_well_formed_and_counts_what_happened() {
    let mut world = World::start(ServerOptions::default()).await;
    for _ in 0..20 {
        world.place(MetadataMap::new()).await.unwrap();
    }
    let reply = scrape(world.server.http_address(), "text/plain").await;
    assert_eq!(reply.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert_eq!(reply.header("vary"), Some("accept"));
    let scrape = exposition::text(reply.text());
    let labels = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let calls = labels(&[("method", PLACE), ("code", "OK")]);
    assert_eq!(scrape.values[&("berth_grpc_calls_total".to_owned(), calls)], 20.0);
    let nodes = labels(&[("type", "nodes")]);
    assert_eq!(scrape.values[&("berth_cache_size".to_owned(), nodes)], 1.0);
    let duration = ("berth_grpc_call_duration_seconds".to_owned(), labels(&[("method", PLACE)]));
    let duration = &scrape.histograms[&duration];
    assert_eq!(duration.count, 20.0);
    assert!(duration.sum > 0.0);
}

#[tokio::test]
async fn classic_and_native_histograms_have_the_same_samples() {
    let mut world = World::start(ServerOptions::default()).await;
    for _ in 0..50 {
        world.place(MetadataMap::new()).await.unwrap();
    }
    let http = world.server.http_address();
    let reply = scrape(http, PROTOBUF).await;
    assert_eq!(
        reply.header("content-type"),
        Some(
            "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
        )
    );
    let families = exposition::protobuf(&reply.body);
    let text = exposition::text(scrape(http, "text/plain").await.text());
    let names: Vec<_> = families.iter().map(|family| family.name.clone()).collect();
    assert_eq!(names, text.kinds.keys().cloned().collect::<Vec<_>>());
    let mut n_samples = 0;
    for family in &families {
        assert!(!family.help.is_empty() && !family.metric.is_empty(), "{}", family.name);
        for metric in &family.metric {
            let forms = (&metric.counter, &metric.gauge, &metric.histogram);
            match (family.r#type(), forms) {
                (MetricType::Counter, (Some(_), None, None))
                | (MetricType::Gauge, (None, Some(_), None)) => {}
                (MetricType::Histogram, (None, None, Some(native))) => {
                    let key = (family.name.clone(), metric.labels());
                    let classic = &text.histograms[&key];
                    let bounds = native.bucket.iter().map(|bucket| bucket.upper_bound);
                    assert!(bounds.eq(classic.buckets.iter().map(|(bound, _)| *bound)), "{key:?}");
                    n_samples += check(native);
                }
                other => panic!("{}: {other:?}", family.name),
            }
        }
    }
    assert!(n_samples >= 100, "{n_samples}");
}

/// Checks that both forms of a histogram agree as far as their bounds can be compared; returns its number of samples.
fn check(native: &exposition::Native) -> u64 {
    let buckets = native.buckets();
    let n: u64 = native.zero_count + buckets.iter().map(|(_, n)| n).sum::<u64>();
    assert_eq!(n, native.sample_count);
    assert_eq!(native.bucket.last().map(|bucket| bucket.cumulative_count), Some(n));
    assert!(native.zero_threshold > 0.0, "Prometheus takes it for a classic one otherwise");
    let growth = 2f64.powf(0.5f64.powi(native.schema));
    for bucket in &native.bucket {
        let below = |factor: f64| {
            let bound = bucket.upper_bound * factor;
            let zero = if native.zero_threshold <= bound { native.zero_count } else { 0 };
            zero + buckets.iter().filter(|(end, _)| *end <= bound).map(|(_, n)| n).sum::<u64>()
        };
        // The bucket that contains the bound may count on either side.
        let (least, most) = (below(1.0 - 1e-9), below(growth * (1.0 + 1e-9)));
        let counted = bucket.cumulative_count;
        assert!((least..=most).contains(&counted), "{least} {counted} {most}: {bucket:?}");
    }
    n
}

#[tokio::test]
async fn scrapes_and_placements_do_not_wait_for_each_other() {
    let mut world = World::start(ServerOptions::default()).await;
    let http = world.server.http_address();
    let scraping = tokio::spawn(async move {
        let mut last = 0.0;
        for i in 0..60 {
            let accept = if i % 2 == 0 { "text/plain" } else { PROTOBUF };
            let reply = scrape(http, accept).await;
            if i % 2 == 0 {
                let scrape = exposition::text(reply.text());
                let n: f64 = scrape.histograms.values().map(|histogram| histogram.count).sum();
                assert!(n >= last, "counts never go back");
                last = n;
            } else {
                for family in exposition::protobuf(&reply.body) {
                    family.metric.iter().filter_map(|metric| metric.histogram.as_ref()).for_each(
                        |native| {
                            check(native);
                        },
                    );
                }
            }
        }
    });
    while !scraping.is_finished() {
        world.place(MetadataMap::new()).await.unwrap();
    }
    scraping.await.unwrap();
}
