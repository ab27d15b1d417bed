//! DefaultTolerationSeconds: how long a pod stays on a node that is not ready or unreachable. Rule: A-TOL-1.

use berth_proto::core_v1::{Pod, Toleration};

use super::filling::Filling;

/// Taints of the node lifecycle controller.
const KEYS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// Seconds that a pod tolerates them.
const SECONDS: i64 = 300;

const NO_EXECUTE: &str = "NoExecute";

pub(super) fn fill(pod: &mut Pod, filling: &mut Filling) {
    let Some(spec) = &mut pod.spec else { return };
    let is_missing = KEYS.map(|key| !spec.tolerations.iter().any(|it| is_for(it, key)));
    for (key, is_missing) in KEYS.into_iter().zip(is_missing) {
        if is_missing {
            let field = format!("spec.tolerations[{}]", spec.tolerations.len());
            filling.note(
                field,
                format!("{key}:{NO_EXECUTE} for {SECONDS}s"),
                "DefaultTolerationSeconds",
            );
            spec.tolerations.push(Toleration {
                key: key.to_owned(),
                operator: "Exists".to_owned(),
                effect: NO_EXECUTE.to_owned(),
                toleration_seconds: Some(SECONDS),
                ..Toleration::default()
            });
        }
    }
}

fn is_for(toleration: &Toleration, key: &str) -> bool {
    (toleration.key.is_empty() || toleration.key == key)
        && (toleration.effect.is_empty() || toleration.effect == NO_EXECUTE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(tolerations: &str) -> Vec<String> {
        let json = format!(r#"{{"spec": {{"tolerations": {tolerations}}}}}"#);
        let mut pod: Pod = serde_json::from_str(&json).unwrap();
        let mut filling = Filling::default();
        fill(&mut pod, &mut filling);
        filling.finish().filled.into_iter().map(|filled| filled.value).collect()
    }

    /// A-TOL-1
    #[test]
    fn what_is_tolerated_already_stays() {
        let not_ready = "node.kubernetes.io/not-ready:NoExecute for 300s";
        let unreachable = "node.kubernetes.io/unreachable:NoExecute for 300s";
        assert_eq!(keys("[]"), [not_ready, unreachable]);
        let own = r#"[{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 5, "effect": "NoExecute"}]"#;
        assert_eq!(keys(own), [unreachable]);
        assert!(keys(r#"[{"operator": "Exists"}]"#).is_empty());
        assert_eq!(keys(r#"[{"operator": "Exists", "effect": "NoSchedule"}]"#).len(), 2);
    }
}
