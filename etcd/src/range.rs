//! Ranges of keys.

use crate::rpc::RangeRequest;

/// The end of the range of all keys that start with `prefix`: the first key after them. For an empty prefix, or one of
/// bytes 255 only, `\0`, which etcd takes for the end of all keys.
#[must_use]
pub fn end_of_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    vec![0]
}

/// Reads one key.
#[must_use]
pub fn key(key: impl Into<Vec<u8>>) -> RangeRequest {
    RangeRequest { key: key.into(), ..RangeRequest::default() }
}

/// Reads all keys that start with `prefix`.
#[must_use]
pub fn prefix(prefix: impl Into<Vec<u8>>) -> RangeRequest {
    let key = prefix.into();
    RangeRequest { range_end: end_of_prefix(&key), key, ..RangeRequest::default() }
}

#[cfg(test)]
mod tests {
    use super::end_of_prefix;

    #[test]
    fn the_end_is_the_first_key_that_does_not_start_so() {
        assert_eq!(end_of_prefix(b"/berth/"), b"/berth0");
        assert_eq!(end_of_prefix(b"a\xff\xff"), b"b");
        assert_eq!(end_of_prefix(b"\xff"), b"\0");
        assert_eq!(end_of_prefix(b""), b"\0");
    }
}
