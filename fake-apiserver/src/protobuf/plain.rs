//! Kinds that kubectl creates in protobuf and that decisions do not read, with upstream's field numbers.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use berth_proto::meta_v1::ObjectMeta;
use serde_json::{Value, json};

/// `core/v1` ConfigMap.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ConfigMap {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ObjectMeta>,
    #[prost(btree_map = "string, string", tag = "2")]
    data: BTreeMap<String, String>,
    #[prost(btree_map = "string, bytes", tag = "3")]
    binary_data: BTreeMap<String, Vec<u8>>,
    #[prost(bool, optional, tag = "4")]
    immutable: Option<bool>,
}

/// `core/v1` Secret.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Secret {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ObjectMeta>,
    #[prost(btree_map = "string, bytes", tag = "2")]
    data: BTreeMap<String, Vec<u8>>,
    #[prost(string, tag = "3")]
    r#type: String,
    #[prost(btree_map = "string, string", tag = "4")]
    string_data: BTreeMap<String, String>,
    #[prost(bool, optional, tag = "5")]
    immutable: Option<bool>,
}

/// `core/v1` ServiceAccount, as far as `kubectl create serviceaccount` writes it.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ServiceAccount {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ObjectMeta>,
    #[prost(bool, optional, tag = "4")]
    automount_service_account_token: Option<bool>,
}

impl ConfigMap {
    pub(super) fn to_json(&self) -> Value {
        let ConfigMap { metadata, data, binary_data, immutable } = self;
        without_absent(json!({
            "metadata": metadata, "data": data, "binaryData": encoded(binary_data), "immutable": immutable,
        }))
    }
}

impl Secret {
    pub(super) fn to_json(&self) -> Value {
        let Secret { metadata, data, r#type, string_data, immutable } = self;
        let mut data = encoded(data);
        data.extend(string_data.iter().map(|(key, text)| (key.clone(), STANDARD.encode(text))));
        let r#type = if r#type.is_empty() { "Opaque" } else { r#type };
        without_absent(
            json!({"metadata": metadata, "data": data, "type": r#type, "immutable": immutable}),
        )
    }
}

impl ServiceAccount {
    pub(super) fn to_json(&self) -> Value {
        let ServiceAccount { metadata, automount_service_account_token } = self;
        without_absent(json!({
            "metadata": metadata, "automountServiceAccountToken": automount_service_account_token,
        }))
    }
}

fn encoded(data: &BTreeMap<String, Vec<u8>>) -> BTreeMap<String, String> {
    data.iter().map(|(key, bytes)| (key.clone(), STANDARD.encode(bytes))).collect()
}

fn without_absent(mut object: Value) -> Value {
    if let Value::Object(fields) = &mut object {
        let is_absent = |value: &Value| {
            value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty)
        };
        fields.retain(|_, value| !is_absent(value));
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_base64() {
        let secret = Secret {
            data: [("a".to_owned(), b"b".to_vec())].into(),
            string_data: [("c".to_owned(), "d".to_owned())].into(),
            ..Secret::default()
        };
        assert_eq!(secret.to_json(), json!({"data": {"a": "Yg==", "c": "ZA=="}, "type": "Opaque"}));
    }
}
