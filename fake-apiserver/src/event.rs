//! The two forms of an Event: `events.k8s.io/v1`, in which it is stored, and core `v1` (recording 15).

use serde_json::Value;

/// Field names in `events.k8s.io/v1` and in core `v1`.
const NAMES: [(&str, &str); 7] = [
    ("note", "message"),
    ("regarding", "involvedObject"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

/// Converts a stored event to the form of core `v1`.
pub(crate) fn to_core(mut event: Value) -> Value {
    rename(&mut event, |(kept, core)| (kept, core));
    event
}

/// Converts an event to the form of `events.k8s.io/v1`.
pub(crate) fn from_core(mut event: Value) -> Value {
    rename(&mut event, |(kept, core)| (core, kept));
    event
}

fn rename(
    event: &mut Value,
    direction: impl Fn((&'static str, &'static str)) -> (&'static str, &'static str),
) {
    let Value::Object(fields) = event else { return };
    for (from, to) in NAMES.map(direction) {
        if let Some(value) = fields.remove(from) {
            fields.insert(to.into(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_forms_say_the_same() {
        let new = json!({"note": "n", "regarding": {"name": "p"}, "reportingController": "c", "reason": "r"});
        let old = json!({"message": "n", "involvedObject": {"name": "p"}, "reportingComponent": "c", "reason": "r"});
        assert_eq!(to_core(new.clone()), old);
        assert_eq!(from_core(old), new);
    }
}
