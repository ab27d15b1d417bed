//! Kubernetes objects as JSON: the first byte chooses the kind, the rest is the text.

/// Checks an object: the first byte chooses its kind.
pub fn run(data: &[u8]) {
    if let Some((kind, json)) = data.split_first() {
        crate::kind::check_json(kind.wrapping_sub(b'a'), json);
    }
}
