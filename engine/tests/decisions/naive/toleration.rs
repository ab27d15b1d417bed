//! Taints and tolerations. Rules: S-TNT-1, S-TNT-2, S-UNS-1, S-TT-1.

use berth_proto::core_v1::{Node, Pod, Taint, Toleration};

/// Returns the node's taints that repel pods, in node order (S-TNT-1).
pub(crate) fn hard_taints(node: &Node) -> impl Iterator<Item = &Taint> {
    taints(node).iter().filter(|taint| taint.effect == "NoSchedule" || taint.effect == "NoExecute")
}

/// Counts untolerated `PreferNoSchedule` taints; only tolerations of that effect or of none count (S-TT-1).
pub(crate) fn n_untolerated_soft_taints(pod: &Pod, node: &Node) -> i64 {
    let soft = taints(node).iter().filter(|taint| taint.effect == "PreferNoSchedule");
    let counts = |t: &&Toleration| t.effect.is_empty() || t.effect == "PreferNoSchedule";
    let untolerated =
        soft.filter(|taint| !tolerations(pod).iter().filter(counts).any(|t| tolerates(t, taint)));
    i64::try_from(untolerated.count()).expect("few")
}

/// Whether at least one toleration of the pod matches.
pub(crate) fn is_tolerated(pod: &Pod, taint: &Taint) -> bool {
    tolerations(pod).iter().any(|toleration| tolerates(toleration, taint))
}

/// S-TNT-2, with the gate of `Lt` and `Gt` off.
fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    (toleration.effect.is_empty() || toleration.effect == taint.effect)
        && (toleration.key.is_empty() || toleration.key == taint.key)
        && match toleration.operator.as_str() {
            "" | "Equal" => toleration.value == taint.value,
            "Exists" => true,
            _ => false,
        }
}

fn taints(node: &Node) -> &[Taint] {
    node.spec.as_ref().map_or(&[], |spec| &spec.taints)
}

fn tolerations(pod: &Pod) -> &[Toleration] {
    pod.spec.as_ref().map_or(&[], |spec| &spec.tolerations)
}
