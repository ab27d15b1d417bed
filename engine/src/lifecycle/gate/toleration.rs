//! `CheckTolerationUpdate`: updates of the tolerations of an existing pod (L-GATE-10).

use std::collections::BTreeSet;

use berth_proto::berth_v1::{CheckTolerationUpdateRequest, CheckTolerationUpdateResponse};
use berth_proto::core_v1::Toleration;

use crate::lifecycle::node_failure::NoExecuteTolerations;
use crate::model::ModelError;

/// `CheckTolerationUpdate`: an update may only add tolerations and change their `tolerationSeconds`. Cost: n log n.
///
/// Tolerations compare by their spelling, as in v1.36.2: an absent operator and `Equal` are different here.
///
/// # Errors
/// [`ModelError`] at `old[i]` or `new[i]` for an unknown operator or effect.
pub fn check_toleration_update(
    request: &CheckTolerationUpdateRequest,
) -> Result<CheckTolerationUpdateResponse, ModelError> {
    for (list, field) in [(&request.old, "old"), (&request.new, "new")] {
        NoExecuteTolerations::read(list, field)?;
    }
    let new: BTreeSet<_> = request.new.iter().map(but_for_seconds).collect();
    let allowed = request.old.iter().all(|old| new.contains(&but_for_seconds(old)));
    let reason = if allowed { "" } else { "OnlyAdditionAllowed" };
    Ok(CheckTolerationUpdateResponse { allowed, reason: reason.into() })
}

fn but_for_seconds(toleration: &Toleration) -> [&str; 4] {
    let Toleration { key, operator, value, effect, toleration_seconds: _ } = toleration;
    [key, operator, value, effect]
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn only_the_seconds_may_change() {
        let allowed = |old: Value, new: Value| {
            let request = serde_json::from_value(json!({"old": [old], "new": [new]})).unwrap();
            check_toleration_update(&request).unwrap().allowed
        };
        let old = json!({"key": "a", "operator": "Equal", "value": "v", "effect": "NoExecute"});
        // L-GATE-10
        for (field, value) in [("key", "b"), ("operator", ""), ("value", "w"), ("effect", "")] {
            let mut new = old.clone();
            new[field] = json!(value);
            assert!(!allowed(old.clone(), new), "{field}");
        }
        let mut new = old.clone();
        new["tolerationSeconds"] = json!(0);
        assert!(allowed(old, new));
        let request = json!({"new": [{}, {"operator": "Bogus"}]});
        let error = check_toleration_update(&serde_json::from_value(request).unwrap());
        let reason = "`new[1].operator`: `Bogus` is not a toleration operator";
        assert_eq!(error.unwrap_err().to_string(), reason);
    }
}
