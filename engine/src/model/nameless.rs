//! Nameless: the encoding of a pod without its name and uid, by which the pods of a workload are known to be alike.

use std::ops::Range;

use berth_proto::meta_v1::ObjectMeta;
use berth_proto::{EncodedPod, core_v1};
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use prost::{Message, encode_length_delimiter, length_delimiter_len};

/// The annotation in which kubectl repeats a whole object; no question reads it.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Wire type of a message within a message.
const LENGTH_DELIMITED: u8 = 2;
/// Number of bytes that most pods do not exceed.
const USUAL_BYTES: usize = 1_024;
/// Number of bytes that a field's key and length take at most.
const MAX_KEY_BYTES: usize = 11;

/// Field numbers of `ObjectMeta`.
const NAME: u32 = 1;
const UID: u32 = 5;

/// The encoding of a pod without its name and its uid: of a decoded pod also without what kubectl repeats, and of one as
/// it was sent with fields that nothing reads.
#[derive(Debug)]
pub(crate) struct Nameless {
    encoded: Vec<u8>,
    /// Where the encoding of the spec is.
    spec: Range<usize>,
}

impl Nameless {
    pub(crate) fn of(pod: &core_v1::Pod) -> Nameless {
        let core_v1::Pod { metadata, spec, status } = pod;
        let mut encoded = Vec::with_capacity(USUAL_BYTES);
        if let Some(metadata) = metadata {
            let nameless = match repeats(metadata) {
                true => nameless(&without_repetition(metadata)),
                false => nameless(metadata),
            };
            put_field_of(1, &nameless, &mut encoded);
        }
        let n_spec = put_field(2, spec.as_ref(), &mut encoded);
        let spec = encoded.len() - n_spec..encoded.len();
        put_field(3, status.as_ref(), &mut encoded);
        Nameless { encoded, spec }
    }

    /// The parts of a pod as it was sent, with these fields of its metadata.
    fn with(metadata: &[u8], pod: &EncodedPod) -> Nameless {
        let spec = pod.spec().unwrap_or_default();
        let n_status = pod.status().map_or(0, <[u8]>::len);
        let n_bytes = metadata.len() + spec.len() + n_status + 3 * MAX_KEY_BYTES;
        let mut encoded = Vec::with_capacity(n_bytes);
        put_field_of(1, metadata, &mut encoded);
        if pod.spec().is_some() {
            put_field_of(2, spec, &mut encoded);
        }
        let spec = encoded.len() - spec.len()..encoded.len();
        if let Some(status) = pod.status() {
            put_field_of(3, status, &mut encoded);
        }
        Nameless { encoded, spec }
    }

    pub(crate) fn encoded(&self) -> &[u8] {
        &self.encoded
    }

    /// The encoding of the spec alone; empty where there is none.
    pub(crate) fn spec(&self) -> &[u8] {
        self.encoded.get(self.spec.clone()).unwrap_or_default()
    }
}

/// The encoding of metadata without name and uid.
fn nameless(metadata: &ObjectMeta) -> Vec<u8> {
    let ObjectMeta { name, generate_name, namespace, self_link, uid, .. } = metadata;
    let len = |field: &String| match field.len() {
        0 => 0,
        n => 1 + length_delimiter_len(n) + n,
    };
    // The fields are encoded by number: the name is the first, and these are before the uid.
    let n_between = len(generate_name) + len(namespace) + len(self_link);
    let mut encoded = metadata.encode_to_vec();
    let uid_at = len(name) + n_between;
    encoded.drain(uid_at..uid_at + len(uid));
    encoded.drain(..len(name));
    encoded
}

/// A pod as it was sent: its name and uid, and the rest as it is encoded, fields that no decision reads included.
#[derive(Debug)]
pub(crate) struct Sent<'a> {
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
    pub(crate) nameless: Nameless,
}

impl<'a> Sent<'a> {
    /// Reads name and uid. `None` for a pod without metadata, and where these are malformed: decoding says why.
    pub(crate) fn of(pod: &'a EncodedPod) -> Option<Sent<'a>> {
        let metadata = pod.metadata()?;
        let (mut name, mut uid) = (&[][..], &[][..]);
        let mut rest = Vec::with_capacity(metadata.len());
        let mut unread = metadata;
        while !unread.is_empty() {
            let field = unread;
            let (number, wire_type) = decode_key(&mut unread).ok()?;
            if wire_type == WireType::LengthDelimited {
                let n_bytes = usize::try_from(decode_varint(&mut unread).ok()?).ok()?;
                let (content, after) = unread.split_at_checked(n_bytes)?;
                unread = after;
                match number {
                    NAME => name = content,
                    UID => uid = content,
                    _ => rest.extend(&field[..field.len() - unread.len()]),
                }
            } else {
                skip_field(wire_type, number, &mut unread, DecodeContext::default()).ok()?;
                rest.extend(&field[..field.len() - unread.len()]);
            }
        }
        let (name, uid) = (str::from_utf8(name).ok()?, str::from_utf8(uid).ok()?);
        Some(Sent { name, uid, nameless: Nameless::with(&rest, pod) })
    }
}

/// Whether kubectl repeats the object in its metadata.
pub(super) fn repeats(metadata: &ObjectMeta) -> bool {
    metadata.annotations.contains_key(LAST_APPLIED)
}

/// A copy of metadata without what kubectl repeats.
pub(super) fn without_repetition(metadata: &ObjectMeta) -> ObjectMeta {
    let mut metadata = metadata.clone();
    metadata.annotations.remove(LAST_APPLIED);
    metadata
}

/// Appends a field of a message, with its number below 16. Returns the length of the value alone.
pub(super) fn put_field(number: u8, value: Option<&impl Message>, encoded: &mut Vec<u8>) -> usize {
    let Some(value) = value else { return 0 };
    encoded.push(number << 3 | LENGTH_DELIMITED);
    let n = value.encoded_len();
    // The only error is a full buffer, and a `Vec` grows.
    let _ = encode_length_delimiter(n, encoded);
    let _ = value.encode(encoded);
    n
}

/// Appends a field that is encoded already.
fn put_field_of(number: u8, value: &[u8], encoded: &mut Vec<u8>) {
    encoded.push(number << 3 | LENGTH_DELIMITED);
    let _ = encode_length_delimiter(value.len(), encoded);
    encoded.extend(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str) -> core_v1::Pod {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": name, "namespace": "shop", "labels": {"a": "b"}, "generation": 3,
                "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]},
            "status": {"phase": "Pending"},
        }))
        .unwrap()
    }

    /// `pod` without name and uid.
    fn unnamed(mut pod: core_v1::Pod) -> core_v1::Pod {
        if let Some(metadata) = &mut pod.metadata {
            metadata.name.clear();
            metadata.uid.clear();
        }
        pod
    }

    #[test]
    fn a_pod_is_encoded_without_its_name() {
        let whole = pod("web-0");
        for (generate_name, self_link, uid) in
            [("", "", ""), ("web-", "", "u"), ("", "/pods", ""), ("web-", "/pods", "u")]
        {
            for name in ["", "web-0", &"x".repeat(300)] {
                let mut pod = whole.clone();
                let metadata = pod.metadata.as_mut().unwrap();
                metadata.name = name.to_owned();
                metadata.uid = uid.to_owned();
                metadata.generate_name = generate_name.to_owned();
                metadata.self_link = self_link.to_owned();
                let nameless = Nameless::of(&pod);
                assert_eq!(nameless.spec(), pod.spec.as_ref().unwrap().encode_to_vec());
                assert_eq!(nameless.encoded(), unnamed(pod.clone()).encode_to_vec());
                let encoded = EncodedPod::from(&pod);
                let sent = Sent::of(&encoded).unwrap();
                assert_eq!((sent.name, sent.uid), (name, uid));
                assert_eq!(sent.nameless.encoded(), nameless.encoded());
                assert_eq!(sent.nameless.spec(), nameless.spec());
            }
        }
        let bare = core_v1::Pod::default();
        assert_eq!(Nameless::of(&bare).encoded(), bare.encode_to_vec());
        assert!(Nameless::of(&bare).spec().is_empty());
    }

    /// Fields come in any order, more than once, and some are not known.
    #[test]
    fn a_sent_pod_is_known_by_what_else_it_has() {
        let metadata = |name: &str, extra: &[u8]| {
            let named = ObjectMeta { name: name.to_owned(), ..ObjectMeta::default() };
            let uid = ObjectMeta { uid: "u".to_owned(), ..ObjectMeta::default() };
            [&uid.encode_to_vec(), extra, &named.encode_to_vec()].concat()
        };
        let encoded = |metadata: &[u8]| {
            let mut bytes = Vec::new();
            put_field_of(1, metadata, &mut bytes);
            EncodedPod::decode(&*bytes).unwrap()
        };
        let unknown = [0x9a, 0x06, 1, b'x', 0xa5, 0x06, 1, 2, 3, 4];
        let pod_of = |it| core_v1::Pod { metadata: Some(it), ..Default::default() };
        let pods = ["a", "b"].map(|name| encoded(&metadata(name, &unknown)));
        let [one, other] = pods.each_ref().map(|pod| Sent::of(pod).unwrap());
        assert_eq!((one.name, other.name, one.uid), ("a", "b", "u"));
        assert_eq!(one.nameless.encoded(), other.nameless.encoded());
        assert_eq!(core_v1::Pod::decode(one.nameless.encoded()), Ok(pod_of(ObjectMeta::default())));
        let twice = [metadata("a", &[]), metadata("c", &[])].concat();
        assert_eq!(Sent::of(&encoded(&twice)).unwrap().name, "c");
        for malformed in [&[0x0a, 9][..], &[0x0a, 1, 0xff], &[0x0b], &[0x80], &[0x2a, 0xff]] {
            assert!(Sent::of(&encoded(malformed)).is_none(), "{malformed:?}");
        }
        assert!(Sent::of(&EncodedPod::default()).is_none());
    }
}
