//! Responses of an API server: the lines of a watch, split anywhere, and the pages of a list.

use berth_server::feed::kube::{Decoder, Event, Garbage, ObjectChange, Page, Resource};

use crate::work::bounded;
use crate::world;

const BYTES_EACH: u64 = 8 << 10;

/// Checks a stream: the first byte chooses the kind and whether pods are kept, the second the length of chunks.
pub fn run(data: &[u8]) {
    let [kind, cut, stream @ ..] = data else { return };
    let resource = Resource::ALL[usize::from(*kind) % Resource::N];
    let keeps_pods = kind & 0x80 != 0;
    world::within(|world| {
        let whole = bounded(stream.len(), BYTES_EACH, || {
            decode(Decoder::new(&world.cluster, resource, keeps_pods), [stream])
        });
        // Chunk boundaries have no effect.
        let chunks = stream.chunks(usize::from(*cut).max(1));
        let cut = decode(Decoder::new(&world.cluster, resource, keeps_pods), chunks);
        assert_eq!(whole, cut);
        let n_lines = stream.split(|byte| *byte == b'\n').count();
        assert!(whole.len() < n_lines.max(1), "{} events of {n_lines} lines", whole.len());
    });
    check_page(stream);
}

/// A short text for each event.
fn decode<'a>(mut decoder: Decoder<'_>, chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
    let mut events = Vec::new();
    for chunk in chunks {
        decoder.push(chunk);
        events.extend(decoder.by_ref().map(|event| in_short(&event)));
    }
    events
}

fn in_short(event: &Result<Event, Garbage>) -> String {
    match event {
        Ok(Event::Object(ObjectChange { change, version, who, delta, pod })) => {
            let delta = delta.as_ref().map_err(world::checked_message).map(|_| ());
            format!("{change:?} {version:?} {who:?} {delta:?} {}", pod.is_some())
        }
        Ok(Event::Bookmark { version, ends_list }) => format!("bookmark {version} {ends_list}"),
        Ok(Event::Failed(refusal)) => format!("{refusal:?}"),
        Ok(Event::TooLong) => "too long".to_owned(),
        Err(garbage) => {
            let text = garbage.to_string();
            assert!(!text.is_empty() && text.len() < 2 << 10, "{} bytes", text.len());
            text
        }
    }
}

fn check_page(body: &[u8]) {
    let Ok(page) = bounded(body.len(), 256, || Page::parse(body)) else { return };
    for item in page.items() {
        serde_json::from_str::<serde::de::IgnoredAny>(item).expect("an item is a value");
    }
    // `Value` refuses numbers that are too large, which a page of well-formed items does not look at.
    let Ok(whole) = serde_json::from_slice::<serde_json::Value>(body) else {
        serde_json::from_slice::<serde::de::IgnoredAny>(body).expect("any reader takes it");
        return;
    };
    let version = whole["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
    assert_eq!(page.version().ok(), version);
    let items = whole["items"].as_array().map_or(0, Vec::len);
    assert_eq!(page.items().count(), items);
}
