//! The version of Kubernetes in flags and in the configuration file.

use berth_engine::KubernetesVersion;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::document::decode::Cursor;
use crate::document::tree::Value;

/// The parser of a flag: `1.36` or `1.37`.
pub(crate) fn parser() -> impl TypedValueParser<Value = KubernetesVersion> {
    let names = PossibleValuesParser::new(KubernetesVersion::ALL.map(KubernetesVersion::as_str));
    names.try_map(|name| {
        KubernetesVersion::from_name(&name).ok_or_else(|| format!("`{name}` is no version"))
    })
}

/// Reads the version, as text or as the number that an unquoted version is in YAML.
pub(super) fn version(value: Cursor<'_>) -> Option<KubernetesVersion> {
    let text = match value.value() {
        Value::Text(text) => text.clone(),
        Value::Float(number) => number.to_string(),
        Value::Integer(number) => number.to_string(),
        other => {
            value.report(format!("expected a version, got {}", other.kind()));
            return None;
        }
    };
    let version = KubernetesVersion::from_name(&text);
    if version.is_none() {
        let names = KubernetesVersion::ALL.map(|version| format!("`{version}`"));
        value.report(format!("`{text}` is not one of {}", names.join(", ")));
    }
    version
}
