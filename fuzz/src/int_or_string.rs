//! `IntOrString`: a number or a text, in both encodings.

use berth_proto::{IntOrString, IntOrStringValue};
use prost::Message;

use crate::work::bounded;

/// Checks the bytes as JSON and as protobuf.
pub fn run(data: &[u8]) {
    if let Ok(read) = bounded(data.len(), 8, || serde_json::from_slice::<IntOrString>(data)) {
        check_json(data, &read);
        assert_eq!(IntOrString::decode(&*read.encode_to_vec()).unwrap(), read);
    }
    let Ok(read) = bounded(data.len(), 8, || IntOrString::decode(data)) else { return };
    let bytes = read.encode_to_vec();
    let again = IntOrString::decode(&*bytes).unwrap();
    assert_eq!(again, read);
    let Some(value) = read.value() else {
        assert!(serde_json::to_string(&read).is_err(), "{read:?} is neither and was written");
        return;
    };
    let json = serde_json::to_string(&read).unwrap();
    let again: IntOrString = serde_json::from_str(&json).unwrap();
    assert_eq!(again.value(), Some(value), "{json}");
}

fn check_json(data: &[u8], read: &IntOrString) {
    let value: serde_json::Value = serde_json::from_slice(data).expect("any reader takes it");
    match read.value().expect("JSON has nothing else") {
        IntOrStringValue::Int(int) => assert_eq!(value.as_i64(), Some(int.into())),
        IntOrStringValue::String(text) => assert_eq!(value.as_str(), Some(text)),
    }
    let again: IntOrString = serde_json::from_str(&serde_json::to_string(read).unwrap()).unwrap();
    assert_eq!(again, *read);
}
