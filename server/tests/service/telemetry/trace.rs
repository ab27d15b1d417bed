//! Traces: calls that belong to a trace, and spans that reach a collector.

use berth_server::runtime::ServerOptions;
use berth_server::telemetry::TracingOptions;
use serde_json::json;
use tonic::metadata::MetadataMap;

use crate::telemetry::collector::{Collector, fact};
use crate::telemetry::world::{PARENT_ID, TRACE_ID, World, ask, eventually, traceparent};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn world(rate: u32) -> (World, Collector) {
    let (collector, address) = Collector::start().await;
    let tracing = TracingOptions { endpoint: address.to_string(), sampling_rate_per_million: rate };
    let options = ServerOptions { tracing: Some(tracing), ..ServerOptions::default() };
    (World::start(options).await, collector)
}

#[tokio::test]
async fn calls_of_a_recorded_trace_reach_the_collector() {
    let (mut world, collector) = world(0).await;
    let mut metadata = MetadataMap::new();
    metadata.insert("traceparent", traceparent().parse().unwrap());
    metadata.insert("tracestate", "rojo=1".parse().unwrap());
    world.place(metadata.clone()).await.unwrap();
    // Neither call is recorded: the first belongs to no trace, and the caller of the second does not record its part.
    world.place(MetadataMap::new()).await.unwrap();
    let unrecorded = traceparent().replace("-01", "-00");
    metadata.insert("traceparent", unrecorded.parse().unwrap());
    world.place(metadata).await.unwrap();
    let parent = format!("traceparent: {}", traceparent());
    let lines = ["POST /extender/filter HTTP/1.1", &parent];
    ask(world.server.http_address(), &lines, &json!({"nonsense": true})).await;

    let spans =
        eventually("both spans", async || Some(collector.spans()).filter(|spans| spans.len() >= 2));
    let mut spans = spans.await;
    spans.sort_by(|a, b| a.1.name.cmp(&b.1.name));
    let names: Vec<_> = spans.iter().map(|(service, span)| (&**service, &*span.name)).collect();
    let expected =
        [("berth", "POST /extender/filter"), ("berth", "berth.v1.PlacementService/Place")];
    assert_eq!(names, expected);
    for (_, span) in &spans {
        assert_eq!(hex(&span.trace_id), TRACE_ID);
        assert_eq!(hex(&span.parent_span_id), PARENT_ID);
        assert_ne!(hex(&span.span_id), PARENT_ID);
        assert!(span.start_time_unix_nano > 0);
        assert!(span.end_time_unix_nano >= span.start_time_unix_nano);
    }
    assert_ne!(spans[0].1.span_id, spans[1].1.span_id);
    let place = &spans[1].1;
    assert_eq!(place.trace_state, "rojo=1");
    assert_eq!(fact(place, "rpc.method").as_deref(), Some("Place"));
    assert_eq!(fact(place, "rpc.grpc.status_code").as_deref(), Some("0"));
    assert_eq!(fact(&spans[0].1, "http.route").as_deref(), Some("/extender/filter"));
}

#[tokio::test]
async fn a_sampled_call_begins_a_trace_and_what_is_left_is_sent_at_the_end() {
    let (mut world, collector) = world(1_000_000).await;
    world.place(MetadataMap::new()).await.unwrap();
    drop(world.placement);
    world.server.shutdown().await;
    let spans = collector.spans();
    let place = spans.iter().find(|(_, span)| span.name.ends_with("/Place"));
    let (_, place) = place.unwrap_or_else(|| panic!("{spans:?}"));
    assert_eq!(hex(&place.parent_span_id), "");
    assert_eq!(place.trace_id.len(), 16);
}

#[tokio::test]
async fn a_collector_that_is_down_holds_nobody_up() {
    let tracing = TracingOptions {
        // Nothing listens on the port, which was free a moment ago.
        endpoint: std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .to_string(),
        sampling_rate_per_million: 1_000_000,
    };
    let options = ServerOptions { tracing: Some(tracing), ..ServerOptions::default() };
    let mut world = World::start(options).await;
    for _ in 0..100 {
        world.place(MetadataMap::new()).await.unwrap();
    }
    drop(world.placement);
    world.server.shutdown().await;
}
