//! Naming: names, hashes and uids that an API server or a controller would make up. All of them are functions of their
//! arguments.

use berth_proto::core_v1::PodTemplateSpec;
use prost::Message as _;

use crate::hash::hash_text;

/// The longest beginning that the API server keeps of a `generateName`: 63 characters less the 5 that it adds.
const MAX_PREFIX: usize = 58;

/// The name of pod `number` of those with this `generateName`. The API server adds five random characters where this
/// has the number.
pub(super) fn generated(prefix: &str, number: u32) -> String {
    format!("{}{number}", &prefix[..prefix.floor_char_boundary(MAX_PREFIX)])
}

/// A hash of a template in the form of the label `pod-template-hash`: equal templates have equal hashes. The value is
/// not the one of kube-controller-manager, which hashes Go's own representation.
pub(super) fn template_hash(template: &PodTemplateSpec) -> String {
    // The alphabet in which Kubernetes writes such hashes: no vowels, and nothing that looks like one.
    const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let fnv = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    let hash = template.encode_to_vec().iter().fold(0x811c_9dc5, fnv);
    let letter = |digit: u8| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()]);
    hash.to_string().bytes().map(letter).collect()
}

/// A uid for an object that has none, in the form of a UUID.
pub(super) fn uid(kind: &str, namespace: &str, name: &str) -> String {
    let text = format!("{kind}/{namespace}/{name}");
    let [a, b, c, d] = [0, 1, 2, 3].map(|seed| hash_text(&text, seed));
    format!("{a:08x}-{:04x}-{:04x}-{:04x}-{:04x}{d:08x}", b >> 16, b & 0xffff, c >> 16, c & 0xffff)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use berth_proto::meta_v1::ObjectMeta;

    use super::*;

    #[test]
    fn long_prefixes_are_cut_as_the_api_server_cuts_them() {
        assert_eq!(generated("web-", 12), "web-12");
        assert_eq!(generated(&"x".repeat(80), 7), format!("{}7", "x".repeat(58)));
        assert_eq!(generated(&format!("{}é", "x".repeat(57)), 0), format!("{}0", "x".repeat(57)));
    }

    #[test]
    fn hashes_and_uids_tell_objects_apart_and_stay() {
        let template = |value: &str| PodTemplateSpec {
            metadata: Some(ObjectMeta {
                labels: BTreeMap::from([("app".to_owned(), value.to_owned())]),
                ..ObjectMeta::default()
            }),
            spec: None,
        };
        let hash = template_hash(&template("a"));
        assert_eq!(hash, template_hash(&template("a")));
        assert_ne!(hash, template_hash(&template("b")));
        // Nine or ten digits, as most numbers of 32 bits have.
        assert!(hash.len() <= 10 && hash.bytes().all(|b| b.is_ascii_alphanumeric()), "{hash}");
        assert_eq!(uid("Job", "d", "a"), uid("Job", "d", "a"));
        assert_ne!(uid("Job", "d", "a"), uid("Job", "d", "b"));
        assert_eq!(uid("Job", "d", "a").len(), 36);
    }
}
