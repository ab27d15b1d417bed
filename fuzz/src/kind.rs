//! Objects of the kinds that a cluster is fed with, each checked by one function in both encodings.

use std::fmt::Debug;

use berth_engine::Outcome;
use berth_proto::core_v1;
use prost::Message;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::work::bounded;
use crate::world::{self, World};

/// Limit of the memory that decoding and compiling may allocate for each byte of an object: an empty container is a few
/// bytes of text and several hundred in memory, and growing lists are copied.
const BYTES_EACH: u64 = 4 << 10;

/// The result of using an object; equal for equal objects in either encoding.
#[derive(Debug, PartialEq)]
enum Fate {
    Pod(Result<Outcome, String>),
    Other(Result<Vec<String>, String>),
}

/// An object of a kind that a cluster is fed with.
trait FeedObject: Message + Default + Debug + Serialize + DeserializeOwned + PartialEq {
    fn fate(&self, world: &World) -> Fate;

    /// Feeds and deletes the object, and checks that the cluster is as before.
    fn come_and_go(&self, _world: &World) {}
}

impl FeedObject for core_v1::Pod {
    fn fate(&self, world: &World) -> Fate {
        Fate::Pod(world.decide(self))
    }

    fn come_and_go(&self, world: &World) {
        world.come_and_go(self);
    }
}

impl FeedObject for core_v1::Node {
    fn fate(&self, world: &World) -> Fate {
        Fate::Other(world.with_node(self))
    }
}

macro_rules! kinds {
    ($($kind:ident($object:ty) { $($rest:tt)* })+) => {
        $(impl FeedObject for $object {
            fn fate(&self, world: &World) -> Fate {
                Fate::Other(world.with_object(self.into()))
            }
        })+

        /// Reads JSON as each kind's own reader does; `kind` chooses among them.
        pub(crate) fn check_json(kind: u8, json: &[u8]) {
            let checks: &[fn(&[u8])] =
                &[of_json::<core_v1::Pod>, of_json::<core_v1::Node>, $(of_json::<$object>),+];
            checks[usize::from(kind) % checks.len()](json);
        }

        /// Checks an object of a kind in protobuf.
        pub(crate) fn check_protobuf(kind: u8, bytes: &[u8]) {
            let checks: &[fn(&[u8])] = &[
                of_protobuf::<core_v1::Pod>, of_protobuf::<core_v1::Node>,
                $(of_protobuf::<$object>),+
            ];
            checks[usize::from(kind) % checks.len()](bytes);
        }
    };
}

berth_engine::object_kinds!(kinds);

/// Checks that an object read from JSON is equal after a round trip through protobuf, and leads to the same result.
fn of_json<T: FeedObject>(json: &[u8]) {
    let object = match bounded(json.len(), BYTES_EACH, || serde_json::from_slice::<T>(json)) {
        Ok(object) => object,
        Err(error) => return check_refusal(&error.to_string(), json.len()),
    };
    let sent = T::decode(&*object.encode_to_vec()).unwrap();
    assert!(sent == object, "{object:?} as protobuf is {sent:?}");
    check_written(&object);
    let fate = world::within(|world| bounded(json.len(), 64 * BYTES_EACH, || object.fate(world)));
    if is_chosen(json) {
        world::within(|world| object.come_and_go(world));
        assert_eq!(fate, world::within(|world| sent.fate(world)));
    }
}

/// Checks that an object read from protobuf is equal after a round trip. If JSON has all of it, the JSON form leads to
/// the same result.
fn of_protobuf<T: FeedObject>(bytes: &[u8]) {
    let read = bounded(bytes.len(), BYTES_EACH, || T::decode(bytes));
    let object = match read {
        Ok(object) => object,
        Err(error) => return check_refusal(&error.to_string(), bytes.len()),
    };
    let sent = object.encode_to_vec();
    assert!(T::decode(&*sent).unwrap() == object, "{object:?}");
    let written = check_written(&object);
    let fate = world::within(|world| bounded(bytes.len(), 64 * BYTES_EACH, || object.fate(world)));
    if !is_chosen(bytes) {
        return;
    }
    world::within(|world| object.come_and_go(world));
    if let Some(written) = written.filter(|written| written.encode_to_vec() == sent) {
        assert_eq!(world::within(|world| written.fate(world)), fate);
    }
}

/// Whether an input is one of the quarter that is checked further, always the same ones.
fn is_chosen(bytes: &[u8]) -> bool {
    bytes.iter().fold(0_u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(*byte)).is_multiple_of(4)
}

/// Checks that the JSON form of an object can be read, and is written again without a change. A time after the year
/// 9999 has no JSON form.
fn check_written<T: FeedObject>(object: &T) -> Option<T> {
    let json = serde_json::to_string(object).ok()?;
    let again: T = serde_json::from_str(&json).unwrap_or_else(|error| panic!("{json}: {error}"));
    let settled = serde_json::to_string(&again).unwrap();
    let third: T = serde_json::from_str(&settled).unwrap();
    assert_eq!(serde_json::to_string(&third).unwrap(), settled);
    // Only protobuf can hold a quantity with white space around it.
    let is_trimmed = settled.len() < json.len();
    assert!(is_trimmed || settled == json, "{json} is written again as {settled}");
    (!is_trimmed).then_some(again)
}

fn check_refusal(reason: &str, n_bytes: usize) {
    assert!(!reason.is_empty(), "refused without a reason");
    assert!(reason.len() <= 4 * n_bytes + (8 << 10), "{} bytes of reason", reason.len());
}
