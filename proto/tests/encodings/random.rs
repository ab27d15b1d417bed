//! Messages with random or chosen content, built from descriptors.

use std::collections::HashMap;

use proptest::test_runner::{Config as ProptestConfig, RngSeed};
use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage, Value,
};

use crate::descriptors::{is_inlined, is_scalar, label, message_below};
use crate::kinds::KINDS;

/// Messages that are always present, because Kubernetes' schema requires them and `k8s-openapi` writes them even if
/// they are absent. The same holds for the one required field of an inlined message, because writing it creates the
/// message.
const ALWAYS: [&str; 37] = [
    "Binding.target",
    "CSIDriver.spec",
    "CSINode.spec",
    "CapacityRequestPolicyRange.min",
    "Counter.value",
    "CronJob.spec",
    "CronJobSpec.jobTemplate",
    "DaemonSetSpec.selector",
    "DaemonSetSpec.template",
    "Deployment.spec",
    "DeploymentSpec.selector",
    "DeploymentSpec.template",
    "DeviceCapacity.value",
    "DeviceClass.spec",
    "EphemeralContainer.ephemeralContainerCommon",
    "EphemeralContainerCommon.name",
    "HTTPGetAction.port",
    "JobSpec.template",
    "NodeAffinity.requiredDuringSchedulingIgnoredDuringExecution",
    "OpaqueDeviceConfiguration.parameters",
    "PersistentVolumeClaimTemplate.spec",
    "PreferredSchedulingTerm.preference",
    "ReplicaSetSpec.selector",
    "ResourceClaim.spec",
    "ResourceClaimTemplate.spec",
    "ResourceClaimTemplateSpec.spec",
    "ResourceSlice.spec",
    "ResourceSliceSpec.pool",
    "StatefulSetSpec.selector",
    "StatefulSetSpec.template",
    "TCPSocketAction.port",
    "VolumeAttachment.spec",
    "VolumeAttachmentSpec.source",
    "VolumeNodeAffinity.required",
    "WeightedPodAffinityTerm.podAffinityTerm",
    "Condition.lastTransitionTime",
    "ContainerStateRunning.startedAt",
];

/// Every suffix, sign and shape of a number.
const QUANTITIES: [&str; 12] = [
    "0",
    "100m",
    "128Mi",
    "1.5Gi",
    "-3",
    "+2",
    ".5",
    "5.",
    "12e-1",
    "1E3",
    "250u",
    "9223372036854775807",
];

/// Texts that an encoding could get wrong.
const TEXTS: [&str; 8] =
    ["a", "web-0", "", "<&>", "ünï€ \u{1f980}", "\"\\\n\u{0}", "true", "\u{2028}1"];

/// Returns the configuration of a property with the same cases in every run.
pub(crate) fn seeded(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(136),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// A reproducible source of choices. Whether a field is set depends on `density`, in percent, and on how deep it lies.
pub(crate) struct Random {
    state: u64,
    density: u64,
}

impl Random {
    pub(crate) fn new(seed: u64, density: u64) -> Random {
        Random { state: seed, density }
    }

    /// A message with random fields.
    pub(crate) fn message(&mut self, descriptor: &MessageDescriptor, depth: u64) -> DynamicMessage {
        let mut message = DynamicMessage::new(descriptor.clone());
        for field in descriptor.fields() {
            if is_always(&field) && field.kind().as_message().is_none() {
                let value = self.leaf(&field);
                message.set_field(&field, value);
            } else if self.below(100) < self.density / (1 + depth / 4) || is_always(&field) {
                let value = self.value(&field, depth);
                set(&mut message, &field, value);
            }
        }
        message
    }

    /// A message with only the fields along `path` set, and what must be set beside them.
    pub(crate) fn along(
        &mut self,
        descriptor: &MessageDescriptor,
        path: &[FieldDescriptor],
    ) -> DynamicMessage {
        let mut message = DynamicMessage::new(descriptor.clone());
        for field in descriptor.fields().filter(is_always) {
            let value = self.leaf(&field);
            message.set_field(&field, value);
        }
        if let Some((field, rest)) = path.split_first() {
            let value = match message_below(field) {
                Some(below) if !rest.is_empty() => {
                    held(field, Value::Message(self.along(&below, rest)))
                }
                _ => held(field, self.leaf(field)),
            };
            message.set_field(field, value);
        }
        message
    }

    fn value(&mut self, field: &FieldDescriptor, depth: u64) -> Value {
        if field.is_list() {
            Value::List(
                (0..1 + self.below(3)).map(|_| self.element(&field.kind(), depth)).collect(),
            )
        } else if let Kind::Message(entry) = field.kind()
            && entry.is_map_entry()
        {
            let kind = entry.map_entry_value_field().kind();
            let entries = (0..1 + self.below(3)).map(|i| {
                (MapKey::String(format!("{}{i}", self.pick(&TEXTS))), self.element(&kind, depth))
            });
            Value::Map(entries.collect())
        } else {
            self.element(&field.kind(), depth)
        }
    }

    /// A value of the field's kind, or of what its list or map holds, that is not the zero value.
    fn leaf(&mut self, field: &FieldDescriptor) -> Value {
        let kind = match field.kind() {
            Kind::Message(entry) if entry.is_map_entry() => entry.map_entry_value_field().kind(),
            kind => kind,
        };
        match kind {
            Kind::String => Value::String("leaf".into()),
            Kind::Bool => Value::Bool(true),
            Kind::Int32 => Value::I32(-7),
            Kind::Int64 => Value::I64(i64::MIN),
            Kind::Message(message) if is_scalar(&message) => self.scalar(&message),
            // An entry of a map has no bytes for an empty message.
            Kind::Message(message) if field.is_map() => {
                let first: Vec<FieldDescriptor> = message.fields().take(1).collect();
                Value::Message(self.along(&message, &first))
            }
            Kind::Message(message) => Value::Message(self.along(&message, &[])),
            kind => panic!("{}: no value for a field of kind {kind:?}", label(field)),
        }
    }

    fn element(&mut self, kind: &Kind, depth: u64) -> Value {
        match kind {
            Kind::String => Value::String((*self.pick(&TEXTS)).into()),
            Kind::Bool => Value::Bool(self.below(2) == 0),
            Kind::Int32 => Value::I32(*self.pick(&[0, 1, -1, 8080, i32::MAX, i32::MIN])),
            Kind::Int64 => Value::I64(*self.pick(&[0, 1, -1, 1 << 40, i64::MAX, i64::MIN])),
            Kind::Uint32 => Value::U32(*self.pick(&[0, 1, u32::MAX])),
            Kind::Uint64 => Value::U64(*self.pick(&[0, 1, 1 << 63, u64::MAX])),
            Kind::Double => Value::F64(*self.pick(&[0.0, 0.5, -1e300])),
            Kind::Enum(_) => Value::EnumNumber(*self.pick(&[0, 1, 2, 77, -1])),
            Kind::Message(message) if is_scalar(message) => self.scalar(message),
            Kind::Message(message) => Value::Message(self.message(message, depth + 1)),
            kind => panic!("no value for kind {kind:?}"),
        }
    }

    fn scalar(&mut self, message: &MessageDescriptor) -> Value {
        let mut value = DynamicMessage::new(message.clone());
        match message.name() {
            "Quantity" => {
                value.set_field_by_name("string", Value::String((*self.pick(&QUANTITIES)).into()))
            }
            // Years 1970 to 9999, what both JSON writers accept.
            "Time" => value
                .set_field_by_name("seconds", Value::I64((self.next() % 253_000_000_000) as i64)),
            // In whole microseconds, which is what it counts.
            "MicroTime" => {
                value.set_field_by_name(
                    "seconds",
                    Value::I64((self.next() % 253_000_000_000) as i64),
                );
                let nanos = (self.next() % 1_000_000) as i32 * 1_000;
                value.set_field_by_name("nanos", Value::I32(nanos));
            }
            // Keys in order, because `k8s-openapi` sorts them.
            "RawExtension" => {
                let texts = ["{}", "[]", r#"{"a":[1,"x",null],"b":{"c":true}}"#];
                let raw = self.pick(&texts).as_bytes().to_vec();
                value.set_field_by_name("raw", Value::Bytes(raw.into()));
            }
            // The type is always written (W-PB-10).
            "IntOrString" if self.below(2) == 0 => {
                value.set_field_by_name("type", Value::I64(0));
                value.set_field_by_name("intVal", Value::I32(*self.pick(&[0, 80, -1, i32::MAX])));
            }
            "IntOrString" => {
                value.set_field_by_name("type", Value::I64(1));
                value.set_field_by_name(
                    "strVal",
                    Value::String((*self.pick(&["25%", "http", "80"])).into()),
                );
            }
            name => panic!("no value for `{name}`"),
        }
        Value::Message(value)
    }

    fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// Sets the field, unless JSON could not tell its value from absence.
fn set(message: &mut DynamicMessage, field: &FieldDescriptor, value: Value) {
    let is_nothing = value
        .as_message()
        .is_some_and(|below| is_inlined(&below.descriptor()) && below.fields().next().is_none());
    if !is_nothing {
        message.set_field(field, value);
    }
}

fn is_always(field: &FieldDescriptor) -> bool {
    let of_kind = || KINDS.iter().any(|kind| kind.name == field.parent_message().full_name());
    ALWAYS.contains(&&*label(field)) || field.name() == "metadata" && of_kind()
}

/// `value` as the field holds it: alone, as the only element, or under the only key.
fn held(field: &FieldDescriptor, value: Value) -> Value {
    if field.is_list() {
        Value::List(vec![value])
    } else if field.is_map() {
        Value::Map(HashMap::from([(MapKey::String("key".into()), value)]))
    } else {
        value
    }
}
