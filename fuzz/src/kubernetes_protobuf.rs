//! Kubernetes objects as protobuf: the first byte chooses the kind, the rest is the message.

/// Checks an object: the first byte chooses its kind.
pub fn run(data: &[u8]) {
    if let Some((kind, bytes)) = data.split_first() {
        crate::kind::check_protobuf(kind.wrapping_sub(b'a'), bytes);
    }
}
