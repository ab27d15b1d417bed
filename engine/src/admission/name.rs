//! Names: the namespace, a generated name, and a uid. Rules: A-NAME-1 to A-NAME-3.

use std::sync::Arc;

use berth_proto::core_v1::Pod;

use super::filling::{DEFAULT, Filling};
use crate::hash::hash_text;

/// Fills in the namespace (A-NAME-1) and returns it.
pub(super) fn namespace(pod: &mut Pod, filling: &mut Filling) -> Arc<str> {
    let metadata = pod.metadata.get_or_insert_default();
    filling.text(&mut metadata.namespace, "default", "metadata", "namespace");
    metadata.namespace.as_str().into()
}

/// Characters of generated names, which spell no words.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Bytes of the prefix that a generated name keeps, and characters that follow.
const MAX_PREFIX: usize = 58;
const N_RANDOM: usize = 5;

/// Fills in a name (A-NAME-2) and a uid (A-NAME-3).
pub(super) fn generate(pod: &mut Pod, position: u64, filling: &mut Filling) {
    let metadata = pod.metadata.get_or_insert_default();
    if metadata.name.is_empty() && !metadata.generate_name.is_empty() {
        let prefix = &metadata.generate_name;
        let prefix = prefix[..prefix.floor_char_boundary(MAX_PREFIX)].to_owned();
        let text = format!("{pod:?}");
        let name = format!("{prefix}{}", suffix(&text, position));
        let metadata = pod.metadata.get_or_insert_default();
        filling.note("metadata.name", name.as_str(), "generateName");
        metadata.name = name;
    }
    let metadata = pod.metadata.get_or_insert_default();
    if metadata.uid.is_empty() && !metadata.name.is_empty() {
        metadata.uid = format!("{}/{}", metadata.namespace, metadata.name);
        filling.note("metadata.uid", metadata.uid.as_str(), DEFAULT);
    }
}

fn suffix(text: &str, position: u64) -> String {
    let mut rest = hash_text(text, position) as usize;
    let one = |_| {
        let character = char::from(ALPHABET[rest % ALPHABET.len()]);
        rest /= ALPHABET.len();
        character
    };
    (0..N_RANDOM).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(json: &str, position: u64) -> (String, String) {
        let mut pod: Pod = serde_json::from_str(json).unwrap();
        let mut filling = Filling::default();
        namespace(&mut pod, &mut filling);
        generate(&mut pod, position, &mut filling);
        let metadata = pod.metadata.unwrap();
        (metadata.name, metadata.uid)
    }

    /// A-NAME-1, A-NAME-2, A-NAME-3
    #[test]
    fn generated_names_are_repeatable_and_different() {
        assert_eq!(named(r#"{"metadata": {"name": "a"}}"#, 0), ("a".into(), "default/a".into()));
        assert_eq!(named("{}", 0), (String::new(), String::new()));
        let json = r#"{"metadata": {"generateName": "web-", "namespace": "shop"}}"#;
        let (first, uid) = named(json, 0);
        assert_eq!(uid, format!("shop/{first}"));
        let random = first.strip_prefix("web-").unwrap();
        assert!(
            random.len() == 5 && random.bytes().all(|byte| ALPHABET.contains(&byte)),
            "{first}"
        );
        assert_eq!(named(json, 0).0, first);
        assert_ne!(named(json, 1).0, first);
        let long = format!(r#"{{"metadata": {{"generateName": "{}"}}}}"#, "x".repeat(80));
        assert_eq!(named(&long, 0).0.len(), 63);
    }
}
