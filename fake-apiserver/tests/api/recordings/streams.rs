//! Watches: recordings 03, 04, 05, 07 and 19.

use std::time::Duration;

use serde_json::Value;

use super::replay::{Replay, recording};
use crate::client::Next;

/// Sends the recorded requests other than watches, in order, while the watches are open.
fn traffic(replay: &mut Replay, exchanges: &[Value]) {
    for exchange in exchanges {
        if !exchange["request"]["target"].as_str().unwrap().contains("watch=1") {
            replay.exchange(exchange);
        }
    }
}

#[test]
fn watch_traffic() {
    let Some(exchanges) = recording("03-watch-traffic.json") else { return };
    let mut replay = Replay::start();
    replay.same_version("257");
    let mut watch = replay.watch(&exchanges[0], 2);
    traffic(&mut replay, &exchanges);
    replay.stream(&exchanges[0], &mut watch);
    assert_eq!(replay.n_compared, exchanges.len());
}

#[test]
fn watch_field_selectors() {
    let Some(exchanges) = recording("04-watch-field-selectors.json") else { return };
    let mut replay = Replay::start();
    replay.same_version("267");
    let mut watches: Vec<_> = exchanges[..3].iter().map(|watch| replay.watch(watch, 2)).collect();
    traffic(&mut replay, &exchanges);
    for (exchange, watch) in exchanges.iter().zip(&mut watches) {
        replay.stream(exchange, watch);
    }
    assert_eq!(replay.n_compared, exchanges.len());
}

#[test]
fn streaming_list() {
    let Some(exchanges) = recording("05-streaming-list.json") else { return };
    let mut replay = Replay::start();
    let first: String = exchanges[0]["response"]["chunks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|chunk| chunk["data"].as_str().unwrap())
        .collect();
    let events = first.lines().filter(|line| !line.is_empty());
    let events = events.map(|line| serde_json::from_str::<Value>(line).unwrap());
    for event in events.take_while(|event| event["type"] == "ADDED") {
        replay.put(event["object"].clone());
    }
    let mut watch = replay.watch(&exchanges[0], 2);
    // The pod of the second exchange is created after the initial events.
    std::thread::sleep(Duration::from_millis(200));
    traffic(&mut replay, &exchanges);
    replay.stream(&exchanges[0], &mut watch);
    for exchange in &exchanges[2..] {
        if exchange["response"]["status"] == 200 {
            let mut watch = replay.watch(exchange, 1);
            replay.stream(exchange, &mut watch);
        } else {
            replay.exchange(exchange);
        }
    }
    assert_eq!(replay.n_compared, exchanges.len());
}

#[test]
fn watch_timeout() {
    let Some(exchanges) = recording("07-watch-timeout.json") else { return };
    let mut replay = Replay::start();
    replay.same_version("302");
    for exchange in &exchanges {
        let mut watch = replay.watch(exchange, 1);
        replay.stream(exchange, &mut watch);
    }
    assert_eq!(replay.n_compared, 3);
}

#[test]
fn server_stop() {
    let Some(exchanges) = recording("19-server-stop.json") else { return };
    let mut replay = Replay::start();
    replay.same_version("597");
    let mut watch = replay.watch(&exchanges[0], 60);
    assert_eq!(watch.next(Duration::from_millis(200)), Next::Silence);
    replay.world = replay.world.restart();
    replay.stream(&exchanges[0], &mut watch);
    // The cache of the restarted server begins later than the watch.
    replay.world.store().delete("PriorityClass", "", "standard").unwrap();
    replay.world.store().compact();
    let last = exchanges.last().unwrap();
    let mut again = replay.watch(last, 4);
    let (events, end) = again.rest();
    assert_eq!((events.len(), end), (1, Next::End));
    let recorded: Value =
        serde_json::from_str(last["response"]["chunks"][0]["data"].as_str().unwrap()).unwrap();
    for field in ["reason", "code", "status", "kind"] {
        assert_eq!(events[0]["object"][field], recorded["object"][field]);
    }
}
