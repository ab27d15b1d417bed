//! Kubernetes objects as protobuf: the first byte chooses the kind, the rest is the message.

/// A kind, and an object of it.
pub fn run(data: &[u8]) {
    if let Some((kind, bytes)) = data.split_first() {
        crate::kind::check_protobuf(kind.wrapping_sub(b'a'), bytes);
    }
}
