//! EncodedPod: the pod of a request as it was sent. The pods of a workload differ in little but their names, and to compare
//! encodings takes a fraction of decoding them: a server decodes those whose like it has not met before.

use prost::bytes::{Buf, BufMut, Bytes};
use prost::encoding::{DecodeContext, WireType, bytes, skip_field};
use prost::{DecodeError, Message};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::core_v1::Pod;

/// A [`Pod`] by the encodings of its parts; on the wire and as JSON it is that pod. Whether the parts can be decoded is
/// not known before [`EncodedPod::to_pod`].
#[derive(Clone, Default)]
pub struct EncodedPod {
    /// `metadata`, `spec` and `status`: the fields 1 to 3. A part that came more than once is one encoding after the
    /// other, as protobuf merges them.
    parts: [Option<Bytes>; 3],
}

impl EncodedPod {
    /// Decodes the pod.
    ///
    /// # Errors
    /// If a part is no encoding of one.
    pub fn to_pod(&self) -> Result<Pod, DecodeError> {
        let [metadata, spec, status] = &self.parts;
        Ok(Pod {
            metadata: decoded(metadata, "metadata")?,
            spec: decoded(spec, "spec")?,
            status: decoded(status, "status")?,
        })
    }

    /// The encoding of the pod's metadata.
    #[must_use]
    pub fn metadata(&self) -> Option<&[u8]> {
        self.parts[0].as_deref()
    }

    /// The encoding of the pod's spec.
    #[must_use]
    pub fn spec(&self) -> Option<&[u8]> {
        self.parts[1].as_deref()
    }

    /// The encoding of the pod's status.
    #[must_use]
    pub fn status(&self) -> Option<&[u8]> {
        self.parts[2].as_deref()
    }

    /// The parts that are there, by field number.
    fn numbered(&self) -> impl Iterator<Item = (u32, &Bytes)> {
        (1..).zip(&self.parts).filter_map(|(number, part)| Some((number, part.as_ref()?)))
    }
}

fn decoded<M: Message + Default>(
    part: &Option<Bytes>,
    name: &'static str,
) -> Result<Option<M>, DecodeError> {
    let decoded = part.as_ref().map(|part| M::decode(&**part)).transpose();
    decoded.map_err(|mut error| {
        error.push("Pod", name);
        error
    })
}

fn encoded(part: &Option<impl Message>) -> Option<Bytes> {
    part.as_ref().map(|part| part.encode_to_vec().into())
}

impl From<&Pod> for EncodedPod {
    fn from(pod: &Pod) -> EncodedPod {
        let Pod { metadata, spec, status } = pod;
        EncodedPod { parts: [encoded(metadata), encoded(spec), encoded(status)] }
    }
}

impl From<Pod> for EncodedPod {
    fn from(pod: Pod) -> EncodedPod {
        EncodedPod::from(&pod)
    }
}

/// Pods are equal, whatever the order of the fields in their encodings.
impl PartialEq for EncodedPod {
    fn eq(&self, other: &EncodedPod) -> bool {
        self.parts == other.parts
            || self.to_pod().is_ok_and(|pod| other.to_pod().is_ok_and(|other| pod == other))
    }
}

impl std::fmt::Debug for EncodedPod {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.to_pod() {
            Ok(pod) => pod.fmt(f),
            Err(_) => f.debug_list().entries(self.numbered()).finish(),
        }
    }
}

impl Message for EncodedPod {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        self.numbered().for_each(|(number, part)| bytes::encode(number, part, buf));
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        let part = match tag {
            1 => &mut self.parts[0],
            2 => &mut self.parts[1],
            3 => &mut self.parts[2],
            _ => return skip_field(wire_type, tag, buf, ctx),
        };
        let mut more = Bytes::new();
        bytes::merge(wire_type, &mut more, buf, ctx)?;
        *part = Some(match part.take() {
            None => more,
            Some(first) => [first, more].concat().into(),
        });
        Ok(())
    }

    fn encoded_len(&self) -> usize {
        self.numbered().map(|(number, part)| bytes::encoded_len(number, part)).sum()
    }

    fn clear(&mut self) {
        *self = EncodedPod::default();
    }
}

impl Serialize for EncodedPod {
    /// # Errors
    /// If the bytes are no pod.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_pod().map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for EncodedPod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<EncodedPod, D::Error> {
        Pod::deserialize(deserializer).map(EncodedPod::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::berth_v1::BatchEntry;
    use crate::core_v1::{PodSpec, PodStatus};
    use crate::meta_v1::ObjectMeta;

    fn pod(name: &str) -> Pod {
        let metadata = ObjectMeta { name: name.to_owned(), ..ObjectMeta::default() };
        let spec = PodSpec { node_name: "n".repeat(200), ..PodSpec::default() };
        Pod { metadata: Some(metadata), spec: Some(spec), status: None }
    }

    #[test]
    fn on_the_wire_and_as_json_it_is_the_pod() {
        let status = Some(PodStatus { phase: "Pending".to_owned(), ..PodStatus::default() });
        for pod in [Pod::default(), pod("a"), Pod { status, ..pod("b") }] {
            let encoded = EncodedPod::from(&pod);
            assert_eq!(encoded.to_pod(), Ok(pod.clone()));
            assert_eq!(encoded.encode_to_vec(), pod.encode_to_vec());
            assert_eq!(EncodedPod::decode(&*pod.encode_to_vec()), Ok(encoded.clone()));
            let json = serde_json::to_string(&pod).unwrap();
            assert_eq!(serde_json::to_string(&encoded).unwrap(), json);
            assert_eq!(serde_json::from_str::<EncodedPod>(&json).unwrap(), encoded);
            let entry = BatchEntry { pod: Some(encoded), replicas: 3 };
            assert_eq!(BatchEntry::decode(&*entry.encode_to_vec()), Ok(entry));
        }
    }

    /// Parts that come twice are merged, as protobuf does it, and unknown fields are skipped.
    #[test]
    fn what_comes_twice_is_merged() {
        let (first, second) = (pod("a"), pod(""));
        let labels = [("k".to_owned(), "v".to_owned())].into();
        let more = ObjectMeta { labels, ..ObjectMeta::default() };
        let second = Pod { metadata: Some(more), ..second };
        let unknown = [0x22, 2, b'x', b'y', 0x28, 7];
        let bytes = [&first.encode_to_vec()[..], &unknown, &second.encode_to_vec()].concat();
        let merged = Pod::decode(&*bytes).unwrap();
        assert_eq!(merged.metadata.as_ref().unwrap().labels.len(), 1);
        let encoded = EncodedPod::decode(&*bytes).unwrap();
        assert_eq!(encoded.to_pod(), Ok(merged));
    }

    #[test]
    fn bytes_that_are_no_pod_are_an_error() {
        for bytes in [&[0x0a][..], &[0x0a, 5, 1], &[0x08, 1], &[0x22, 9]] {
            assert!(EncodedPod::decode(bytes).is_err(), "{bytes:?}");
        }
        let garbled = EncodedPod::decode(&[0x0a, 2, 0x0a, 9][..]).unwrap();
        let error = garbled.to_pod().unwrap_err().to_string();
        assert!(error.contains("ObjectMeta.name: Pod.metadata: "), "{error}");
        assert!(serde_json::to_string(&garbled).is_err());
        assert_eq!(garbled, garbled.clone());
        assert_ne!(garbled, EncodedPod::default());
        assert_eq!(format!("{garbled:?}"), r#"[(1, b"\n\t")]"#);
    }
}
