//! A pod that is encoded once and sent many times under different names.

use berth_proto::berth_v1::PodKey;
use berth_proto::core_v1::Pod;
use prost::Message as _;

/// A pod's encoding without its name and uid.
///
/// Protobuf allows fields in any order, so name and uid are written in front of the fields that never change.
#[derive(Debug)]
pub(super) struct PodTemplate {
    name: Box<str>,
    namespace: Box<str>,
    uid: Box<str>,
    /// `ObjectMeta` without name and uid.
    metadata: Box<[u8]>,
    /// `Pod` without metadata.
    rest: Box<[u8]>,
}

/// Field numbers: `Pod.metadata`, `ObjectMeta.name`, `ObjectMeta.uid`.
const METADATA: u8 = 1;
const NAME: u8 = 1;
const UID: u8 = 5;

impl PodTemplate {
    pub(super) fn new(pod: &Pod) -> Self {
        let mut pod = pod.clone();
        let mut metadata = pod.metadata.take().unwrap_or_default();
        let name = std::mem::take(&mut metadata.name).into();
        let uid = std::mem::take(&mut metadata.uid).into();
        Self {
            name,
            uid,
            metadata: metadata.encode_to_vec().into(),
            rest: pod.encode_to_vec().into(),
            namespace: metadata.namespace.into(),
        }
    }

    /// Name and uid in repetition `round`, from 0: the original ones, then `NAME-r1` and so on.
    pub(super) fn identity(&self, round: u64) -> PodKey {
        let (name, uid) = if round == 0 {
            (self.name.to_string(), self.uid.to_string())
        } else {
            let name = format!("{}-r{round}", self.name);
            (name.clone(), name)
        };
        PodKey { namespace: self.namespace.to_string(), name, uid }
    }

    /// Appends the encoded pod under its name in repetition `round`, without a field key.
    pub(super) fn put(&self, round: u64, out: &mut Vec<u8>) {
        if round == 0 {
            self.put_as(&self.name, &self.uid, out);
        } else {
            let name = format!("{}-r{round}", self.name);
            self.put_as(&name, &name, out);
        }
    }

    fn put_as(&self, name: &str, uid: &str, out: &mut Vec<u8>) {
        let n_bytes = size_of_bytes(name.len()) + size_of_bytes(uid.len()) + self.metadata.len();
        put_length(METADATA, n_bytes, out);
        put_length(NAME, name.len(), out);
        out.extend_from_slice(name.as_bytes());
        put_length(UID, uid.len(), out);
        out.extend_from_slice(uid.as_bytes());
        out.extend_from_slice(&self.metadata);
        out.extend_from_slice(&self.rest);
    }
}

/// Appends the key of a length-delimited field and its length; `field` is below 16.
pub(super) fn put_length(field: u8, n_bytes: usize, out: &mut Vec<u8>) {
    const LENGTH_DELIMITED: u8 = 2;
    out.push(field << 3 | LENGTH_DELIMITED);
    // A vector grows as needed, so this cannot fail.
    prost::encode_length_delimiter(n_bytes, out).ok();
}

fn size_of_bytes(n_bytes: usize) -> usize {
    1 + prost::length_delimiter_len(n_bytes) + n_bytes
}

#[cfg(test)]
mod tests {
    use berth_proto::core_v1::Pod;
    use berth_synthetic::workload::{WorkloadSpec, generate};
    use prost::Message as _;

    use super::PodTemplate;

    fn sent(template: &PodTemplate, round: u64) -> Pod {
        let mut bytes = Vec::new();
        template.put(round, &mut bytes);
        Pod::decode(bytes.as_slice()).unwrap()
    }

    /// Pods of every kind are decoded unchanged, except for the name in the repetition.
    #[test]
    fn the_encoding_decodes_to_the_pod() {
        for pod in generate(&WorkloadSpec { n_pods: 2_000, ..WorkloadSpec::default() }) {
            let template = PodTemplate::new(&pod);
            assert_eq!(sent(&template, 0), pod);
            let mut again = sent(&template, 12);
            let metadata = again.metadata.as_mut().unwrap();
            let original = pod.metadata.clone().unwrap();
            assert_eq!(metadata.name, format!("{}-r12", original.name));
            assert_eq!(metadata.uid, metadata.name);
            let key = template.identity(12);
            assert_eq!((&key.namespace, &key.name), (&metadata.namespace, &metadata.name));
            assert_eq!(key.uid, metadata.uid);
            (metadata.name, metadata.uid) = (original.name, original.uid);
            assert_eq!(again, pod);
        }
    }

    #[test]
    fn long_names_and_absent_metadata_survive() {
        let mut pod = Pod::default();
        assert_eq!(sent(&PodTemplate::new(&pod), 0).metadata, Some(Default::default()));
        pod.metadata.get_or_insert_default().name = "x".repeat(20_000);
        assert_eq!(sent(&PodTemplate::new(&pod), 0), pod);
    }
}
