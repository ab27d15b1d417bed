//! Bodies in protobuf, as kubectl's `create KIND` sends them: an envelope with the kind, and the object.

mod plain;

use std::sync::LazyLock;

use berth_proto::{ENVELOPE_MAGIC, FILE_DESCRIPTOR_SET, runtime};
use berth_proto::{apps_v1, core_v1, node_v1, policy_v1, resource_v1, scheduling_v1, storage_v1};
use prost::Message as _;
use prost::encoding::decode_varint;
use prost_reflect::{DescriptorPool, DynamicMessage, ReflectMessage as _, UnknownField};
use serde_json::{Value, json};

use crate::resource;
use crate::status::Refusal;
use plain::{ConfigMap, Secret, ServiceAccount};

/// Media type of such bodies.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// Number of the field `status` of every kind that has one; a new object does not keep it.
const STATUS: u32 = 3;

static POOL: LazyLock<Option<DescriptorPool>> =
    LazyLock::new(|| DescriptorPool::decode(FILE_DESCRIPTOR_SET).ok());

/// Decodes the object of a body to JSON, with its kind.
///
/// # Errors
/// A body without the envelope, a kind that is only read as JSON, fields that Berth's messages lack: they would be lost.
pub(crate) fn decode(body: &[u8]) -> Result<Value, Refusal> {
    let broken = |why: String| Refusal::bad_request(format!("the body is no protobuf: {why}"));
    let envelope = body.strip_prefix(&ENVELOPE_MAGIC);
    let envelope = envelope.ok_or_else(|| broken("it does not begin with k8s\\0".to_owned()))?;
    let unknown = runtime::Unknown::decode(envelope).map_err(|error| broken(error.to_string()))?;
    let named = unknown.type_meta.unwrap_or_default();
    let (kind, api_version) = (named.kind, named.api_version);
    if let Some(object) = plain(&kind, &api_version, &unknown.raw) {
        return Ok(of_kind(
            object.map_err(|error| broken(error.to_string()))?,
            &kind,
            &api_version,
        ));
    }
    let typed = typed(&kind, &api_version, &unknown.raw);
    let (package, object) = typed.ok_or_else(Refusal::unsupported_media_type)?;
    let object = object.map_err(broken)?;
    check_is_whole(package, &api_version, &kind, &unknown.raw).map_err(broken)?;
    Ok(of_kind(object, &kind, &api_version))
}

fn of_kind(mut object: Value, kind: &str, api_version: &str) -> Value {
    if let Value::Object(fields) = &mut object {
        fields.insert("kind".into(), json!(kind));
        fields.insert("apiVersion".into(), json!(api_version));
    }
    object
}

/// The JSON form of an object of a kind that decisions do not read; `None` for other kinds.
fn plain(kind: &str, api_version: &str, raw: &[u8]) -> Option<Result<Value, prost::DecodeError>> {
    match (api_version, kind) {
        ("v1", "ConfigMap") => Some(ConfigMap::decode(raw).map(|it| it.to_json())),
        ("v1", "Secret") => Some(Secret::decode(raw).map(|it| it.to_json())),
        ("v1", "ServiceAccount") => Some(ServiceAccount::decode(raw).map(|it| it.to_json())),
        _ => None,
    }
}

/// The package and the JSON form of an object; `None` for other kinds.
fn typed(
    kind: &str,
    api_version: &str,
    raw: &[u8],
) -> Option<(&'static str, Result<Value, String>)> {
    macro_rules! kinds {
        ($($api_version:literal $module:ident $package:literal: $($kind:ident)+;)+) => {
            match (api_version, kind) {
                $($(
                    ($api_version, stringify!($kind)) => Some(($package, json_of::<$module::$kind>(raw))),
                )+)+
                _ => None,
            }
        };
    }
    kinds! {
        "v1" core_v1 "core": Pod Node Namespace Service ReplicationController PersistentVolume
            PersistentVolumeClaim LimitRange ResourceQuota;
        "apps/v1" apps_v1 "apps": ReplicaSet StatefulSet Deployment DaemonSet;
        "policy/v1" policy_v1 "policy": PodDisruptionBudget;
        "scheduling.k8s.io/v1" scheduling_v1 "scheduling": PriorityClass;
        "node.k8s.io/v1" node_v1 "node": RuntimeClass;
        "resource.k8s.io/v1" resource_v1 "resource": DeviceClass ResourceSlice ResourceClaim ResourceClaimTemplate;
        "storage.k8s.io/v1" storage_v1 "storage": StorageClass VolumeAttachment;
    }
}

fn json_of<M: prost::Message + Default + serde::Serialize>(raw: &[u8]) -> Result<Value, String> {
    let message = M::decode(raw).map_err(|error| error.to_string())?;
    serde_json::to_value(message).map_err(|error| error.to_string())
}

/// Checks that the message has no field that Berth's lacks.
fn check_is_whole(package: &str, api_version: &str, kind: &str, raw: &[u8]) -> Result<(), String> {
    let name = format!("k8s.io.api.{package}.v1.{kind}");
    let descriptor = POOL.as_ref().and_then(|pool| pool.get_message_by_name(&name));
    let descriptor = descriptor.ok_or_else(|| format!("`{name}` is not described"))?;
    let message = DynamicMessage::decode(descriptor, raw).map_err(|error| error.to_string())?;
    let has_status = resource::by_kind(api_version, kind)
        .is_some_and(|resource| resource.subresources.contains(&"status"));
    let is_kept = |number: u32| !(has_status && number == STATUS);
    match unread(&message, &is_kept) {
        Some(field) => Err(format!("{field} is only read as JSON")),
        None => Ok(()),
    }
}

/// A field that the message or one in it does not have, and that says something.
fn unread(message: &DynamicMessage, is_kept: &dyn Fn(u32) -> bool) -> Option<String> {
    let is_written = |field: &&UnknownField| {
        let mut bytes = Vec::new();
        field.encode(&mut bytes);
        is_kept(field.number()) && !is_zero(&bytes, MAX_DEPTH)
    };
    if let Some(field) = message.unknown_fields().find(is_written) {
        return Some(format!("field {} of {}", field.number(), message.descriptor().name()));
    }
    let mut fields = message.fields().filter(|(field, _)| is_kept(field.number()));
    fields.find_map(|(_, value)| unread_in(value))
}

/// Depth of messages in a field that is looked into; a deeper one is taken for written.
const MAX_DEPTH: u8 = 16;

/// Whether all fields of the bytes are zero: Go writes fields that were never set, and messages of such fields.
fn is_zero(mut bytes: &[u8], depth: u8) -> bool {
    while !bytes.is_empty() {
        let Ok(key) = decode_varint(&mut bytes) else { return false };
        let Ok(number) = decode_varint(&mut bytes) else { return false };
        match (key & 7, usize::try_from(number)) {
            (0, Ok(0)) => {}
            (2, Ok(length)) => {
                let Some((inner, rest)) = bytes.split_at_checked(length) else { return false };
                if depth == 0 || !is_zero(inner, depth - 1) {
                    return false;
                }
                bytes = rest;
            }
            _ => return false,
        }
    }
    true
}

fn unread_in(value: &prost_reflect::Value) -> Option<String> {
    match value {
        prost_reflect::Value::Message(message) => unread(message, &|_| true),
        prost_reflect::Value::List(values) => values.iter().find_map(unread_in),
        prost_reflect::Value::Map(values) => values.values().find_map(unread_in),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(kind: &str, api_version: &str, raw: Vec<u8>) -> Vec<u8> {
        let type_meta = runtime::TypeMeta { api_version: api_version.into(), kind: kind.into() };
        let unknown =
            runtime::Unknown { type_meta: Some(type_meta), raw, ..runtime::Unknown::default() };
        [ENVELOPE_MAGIC.to_vec(), unknown.encode_to_vec()].concat()
    }

    /// Each level of the field adds two to five bytes.
    #[test]
    fn a_field_of_any_depth_is_looked_into_without_deep_recursion() {
        let mut field: Vec<u8> = Vec::new();
        for _ in 0..20_000 {
            let mut outer = vec![0x0a];
            prost::encoding::encode_varint(field.len() as u64, &mut outer);
            outer.extend(&field);
            field = outer;
        }
        assert!(!is_zero(&field, MAX_DEPTH));
        assert!(is_zero(&[0x0a, 2, 0x0a, 0], MAX_DEPTH));
    }

    #[test]
    fn an_object_comes_out_as_json() {
        let metadata =
            berth_proto::meta_v1::ObjectMeta { name: "shop".into(), ..Default::default() };
        let namespace = core_v1::Namespace { metadata: Some(metadata), ..Default::default() };
        // Go writes messages without content, such as this field that the message lacks.
        let mut raw = namespace.encode_to_vec();
        raw.extend([0x4a, 2, 0x0a, 0]);
        let object = decode(&body("Namespace", "v1", raw.clone())).unwrap();
        assert_eq!(object["metadata"]["name"], "shop");
        assert_eq!((&object["kind"], &object["apiVersion"]), (&json!("Namespace"), &json!("v1")));
        raw.extend([0x4a, 3, 0x0a, 1, b'x']);
        let refusal = decode(&body("Namespace", "v1", raw)).unwrap_err();
        assert!(
            refusal.message.ends_with("field 9 of Namespace is only read as JSON"),
            "{}",
            refusal.message
        );
        assert_eq!(
            decode(&body("Role", "rbac.authorization.k8s.io/v1", Vec::new())).unwrap_err().code,
            415
        );
        assert_eq!(decode(b"{}").unwrap_err().code, 400);
    }
}
