//! Validation: faults of a pod that would make a decision wrong if they passed. Rules: A-VAL-1 to A-VAL-5, A-VAL-7.

use std::collections::{BTreeMap, BTreeSet};

use berth_proto::core_v1::{
    Container, ContainerPort, Pod, PodSpec, ResourceRequirements, Toleration,
};
use berth_proto::{Amount, Quantity};

use super::affinity;
use super::outcome::AdmissionError;
use crate::model::label::clip;
use crate::model::requests::{PodRequests, parse_amount};
use crate::model::resources::is_extended_name;

/// Restart policies of pods and of containers.
const RESTART_POLICIES: [&str; 3] = ["Always", "OnFailure", "Never"];

/// Resources of containers that have no domain, besides huge pages.
const STANDARD: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

const DNS_POLICIES: [&str; 4] = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];

pub(super) fn check(pod: &Pod) -> Result<(), AdmissionError> {
    let Some(spec) = pod.spec.as_ref().filter(|spec| !spec.containers.is_empty()) else {
        return Err(AdmissionError::new("spec.containers", "Required value"));
    };
    check_word(&spec.restart_policy, &RESTART_POLICIES, "spec.restartPolicy")?;
    check_word(&spec.dns_policy, &DNS_POLICIES, "spec.dnsPolicy")?;
    if let Some(seconds) = spec.active_deadline_seconds
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        let reason = format!("must be between 1 and {}, inclusive", i32::MAX);
        return Err(invalid("spec.activeDeadlineSeconds", &seconds.to_string(), &reason));
    }
    // Amounts that are no quantities or negative, and too many names.
    PodRequests::parse(pod)?;
    let mut names = BTreeSet::new();
    check_containers(&spec.init_containers, "spec.initContainers", &mut names)?;
    check_containers(&spec.containers, "spec.containers", &mut names)?;
    check_pod_resources(spec)?;
    for (index, toleration) in spec.tolerations.iter().enumerate() {
        check_toleration(toleration, &format!("spec.tolerations[{index}]"))?;
    }
    spec.affinity.as_ref().map_or(Ok(()), affinity::check)
}

fn check_word(word: &str, words: &[&str], field: &str) -> Result<(), AdmissionError> {
    if words.contains(&word) {
        return Ok(());
    }
    let known: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    let known = known.join(", ");
    let reason = format!("Unsupported value: \"{}\": supported values: {known}", clip(word));
    Err(AdmissionError::new(field, reason))
}

fn invalid(field: &str, value: &str, reason: &str) -> AdmissionError {
    AdmissionError::new(field, format!("Invalid value: \"{}\": {reason}", clip(value)))
}

/// Checks names (A-VAL-1), restart policies (A-VAL-3) and resources (A-VAL-2).
fn check_containers<'a>(
    containers: &'a [Container],
    list: &str,
    names: &mut BTreeSet<&'a str>,
) -> Result<(), AdmissionError> {
    for (index, container) in containers.iter().enumerate() {
        let at = format!("{list}[{index}]");
        check_name(&container.name, &format!("{at}.name"), names)?;
        if let Some(policy) = container.restart_policy.as_deref() {
            check_word(policy, &RESTART_POLICIES, &format!("{at}.restartPolicy"))?;
        }
        if let Some(resources) = &container.resources {
            check_names(resources, &format!("{at}.resources"))?;
            check_resources(resources, &format!("{at}.resources"))?;
        }
        for (index, port) in container.ports.iter().enumerate() {
            check_port(port, &format!("{at}.ports[{index}]"))?;
        }
    }
    Ok(())
}

/// Checks that a container has a name, that it is a DNS label, and that no container before has it (A-VAL-1).
fn check_name<'a>(
    name: &'a str,
    field: &str,
    names: &mut BTreeSet<&'a str>,
) -> Result<(), AdmissionError> {
    if name.is_empty() {
        return Err(AdmissionError::new(field, "Required value"));
    }
    if !is_dns_label(name) {
        let reason = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
                      start and end with an alphanumeric character";
        return Err(invalid(field, name, reason));
    }
    if !names.insert(name) {
        let reason = format!("Duplicate value: \"{}\"", clip(name));
        return Err(AdmissionError::new(field, reason));
    }
    Ok(())
}

/// Whether `name` is a label of RFC 1123 in lower case: at most 63 letters, digits and hyphens, none of them at an end.
fn is_dns_label(name: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    bytes.len() <= 63
        && bytes.iter().all(|&byte| is_word(byte) || byte == b'-')
        && bytes.first().is_some_and(|&byte| is_word(byte))
        && bytes.last().is_some_and(|&byte| is_word(byte))
}

/// Checks that each resource is one of those that every node has, or one of a domain (A-VAL-2).
fn check_names(resources: &ResourceRequirements, at: &str) -> Result<(), AdmissionError> {
    let is_known = |name: &str| {
        STANDARD.contains(&name) || name.starts_with("hugepages-") || name.contains('/')
    };
    for (list, field) in [(&resources.limits, "limits"), (&resources.requests, "requests")] {
        if let Some(name) = list.keys().find(|name| !is_known(name)) {
            let field = format!("{at}.{field}[{}]", clip(name));
            return Err(invalid(
                &field,
                name,
                "must be a standard resource type or fully qualified",
            ));
        }
    }
    Ok(())
}

/// Checks the numbers of a port (A-VAL-7); a host port of 0 is none.
fn check_port(port: &ContainerPort, at: &str) -> Result<(), AdmissionError> {
    let is_port = |number: i32| (1..=65535).contains(&number);
    let reason = "must be between 1 and 65535, inclusive";
    if !is_port(port.container_port) {
        return Err(invalid(
            &format!("{at}.containerPort"),
            &port.container_port.to_string(),
            reason,
        ));
    }
    if port.host_port != 0 && !is_port(port.host_port) {
        return Err(invalid(&format!("{at}.hostPort"), &port.host_port.to_string(), reason));
    }
    Ok(())
}

/// Checks requests against limits (A-VAL-2).
fn check_resources(resources: &ResourceRequirements, at: &str) -> Result<(), AdmissionError> {
    let requests = amounts(&resources.requests, &format!("{at}.requests"))?;
    let limits = amounts(&resources.limits, &format!("{at}.limits"))?;
    for (list, field) in [(&limits, "limits"), (&requests, "requests")] {
        let extended = list.iter().filter(|(name, _)| is_extended_name(name));
        for (name, amount) in extended {
            if amount.milli_value() % 1000 != 0 {
                let milli = format!("{}m", amount.milli_value());
                let field = format!("{at}.{field}[{}]", clip(name));
                return Err(invalid(&field, &milli, "must be an integer"));
            }
        }
    }
    let written = |name: &str| resources.requests.get(name).map_or("", Quantity::as_str);
    for (name, request) in &requests {
        let is_exact = is_extended_name(name) || name.starts_with("hugepages-");
        let Some(limit) = limits.get(name) else {
            if is_exact {
                let reason = "Required value: Limit must be set for non overcommitable resources";
                return Err(AdmissionError::new(format!("{at}.limits[{}]", clip(name)), reason));
            }
            continue;
        };
        let relation = match is_exact {
            true if request != limit => "equal to",
            false if request > limit => "less than or equal to",
            true | false => continue,
        };
        let limit = resources.limits.get(*name).map_or("", Quantity::as_str);
        let reason = format!("must be {relation} {} limit of {}", clip(name), clip(limit));
        let field = format!("{at}.requests[{}]", clip(name));
        return Err(invalid(&field, written(name), &reason));
    }
    Ok(())
}

/// Checks pod-level requests against pod-level limits (A-VAL-2).
fn check_pod_resources(spec: &PodSpec) -> Result<(), AdmissionError> {
    match &spec.resources {
        Some(resources) => check_resources(resources, "spec.resources"),
        None => Ok(()),
    }
}

fn amounts<'a>(
    list: &'a BTreeMap<String, Quantity>,
    field: &str,
) -> Result<BTreeMap<&'a str, Amount>, AdmissionError> {
    let mut amounts = BTreeMap::new();
    for (name, quantity) in list {
        amounts.insert(name.as_str(), parse_amount(quantity, name, field)?);
    }
    Ok(amounts)
}

/// Checks a toleration (A-VAL-4); keys, operators and effects themselves are the model's (A-VAL-5).
fn check_toleration(toleration: &Toleration, at: &str) -> Result<(), AdmissionError> {
    let Toleration { key, operator, value, effect, toleration_seconds } = toleration;
    let reason = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
    if key.is_empty() && operator != "Exists" {
        return Err(invalid(&format!("{at}.operator"), operator, reason));
    }
    if operator == "Exists" && !value.is_empty() {
        let reason = "value must be empty when `operator` is 'Exists'";
        return Err(invalid(&format!("{at}.value"), value, reason));
    }
    if toleration_seconds.is_some() && effect != "NoExecute" {
        let reason = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        return Err(invalid(&format!("{at}.effect"), effect, reason));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(spec: &str) -> String {
        let base = r#""restartPolicy": "Always", "dnsPolicy": "Default""#;
        let comma = if spec.is_empty() { "" } else { ", " };
        let json = format!(r#"{{"spec": {{{base}{comma}{spec}}}}}"#);
        let pod: Pod = serde_json::from_str(&json).unwrap();
        check(&pod).map_or_else(|error| error.to_string(), |()| "ok".to_owned())
    }

    /// A-VAL-1
    #[test]
    fn containers() {
        assert_eq!(refused(""), "`spec.containers`: Required value");
        assert_eq!(refused(r#""containers": [{"name": "a"}, {"name": "b-2"}]"#), "ok");
        assert_eq!(
            refused(r#""containers": [{"name": "a"}, {}]"#),
            "`spec.containers[1].name`: Required value"
        );
        for name in ["A", "-a", "a-", "a_b", &"a".repeat(64)] {
            let refused = refused(&format!(r#""containers": [{{"name": "{name}"}}]"#));
            assert!(refused.contains("a lowercase RFC 1123 label"), "{refused}");
        }
        assert_eq!(
            refused(r#""initContainers": [{"name": "a"}], "containers": [{"name": "a"}]"#),
            "`spec.containers[0].name`: Duplicate value: \"a\""
        );
    }

    /// A-VAL-5: the model's refusals are those of admission.
    #[test]
    fn unreadable_amounts() {
        let spec = r#""containers": [{"name": "c"}], "overhead": {"cpu": "much"}"#;
        assert!(refused(spec).starts_with("`spec.overhead[cpu]`: "), "{}", refused(spec));
    }

    /// A-VAL-2
    #[test]
    fn resources() {
        let of = |resources: &str| {
            refused(&format!(r#""containers": [{{"name": "c", "resources": {resources}}}]"#))
        };
        assert_eq!(
            of(r#"{"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}"#),
            "`spec.containers[0].resources.requests[cpu]`: Invalid value: \"2\": must be less than or equal to cpu limit of 1"
        );
        assert_eq!(
            of(r#"{"requests": {"x.io/gpu": "1"}}"#),
            "`spec.containers[0].resources.limits[x.io/gpu]`: Required value: Limit must be set for non overcommitable resources"
        );
        assert_eq!(
            of(r#"{"requests": {"hugepages-2Mi": "2Mi"}, "limits": {"hugepages-2Mi": "4Mi"}}"#),
            "`spec.containers[0].resources.requests[hugepages-2Mi]`: Invalid value: \"2Mi\": must be equal to hugepages-2Mi limit of 4Mi"
        );
        assert_eq!(
            of(r#"{"requests": {"x.io/gpu": "500m"}, "limits": {"x.io/gpu": "500m"}}"#),
            "`spec.containers[0].resources.limits[x.io/gpu]`: Invalid value: \"500m\": must be an integer"
        );
        assert_eq!(
            of(r#"{"requests": {"cpu": "-1"}}"#),
            "`spec.containers[0].resources.requests[cpu]`: `-1` is negative"
        );
        assert_eq!(
            refused(
                r#""containers": [{"name": "c"}], "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}"#
            ),
            "`spec.resources.requests[cpu]`: Invalid value: \"2\": must be less than or equal to cpu limit of 1"
        );
        assert_eq!(
            of(r#"{"requests": {"cpu": "1"}, "limits": {"cpu": "1000m", "memory": "1"}}"#),
            "ok"
        );
    }

    /// A-VAL-2
    #[test]
    fn names_of_resources() {
        let of = |list: &str| {
            refused(&format!(r#""containers": [{{"name": "c", "resources": {{{list}}}}}]"#))
        };
        assert_eq!(
            of(r#""requests": {"gpu": 1}"#),
            "`spec.containers[0].resources.requests[gpu]`: Invalid value: \"gpu\": must be a standard resource type or fully qualified"
        );
        assert!(of(r#""limits": {"storage": 1}"#).contains("limits[storage]"));
        assert_eq!(of(r#""requests": {"ephemeral-storage": 1, "cpu": 1}"#), "ok");
    }

    /// A-VAL-7
    #[test]
    fn ports() {
        let of =
            |port: &str| refused(&format!(r#""containers": [{{"name": "c", "ports": [{port}]}}]"#));
        assert_eq!(of(r#"{"containerPort": 80, "hostPort": 65535}"#), "ok");
        assert_eq!(
            of(r#"{"containerPort": 65536}"#),
            "`spec.containers[0].ports[0].containerPort`: Invalid value: \"65536\": must be between 1 and 65535, inclusive"
        );
        assert!(of(r#"{"containerPort": 80, "hostPort": -1}"#).contains("hostPort"));
    }

    /// A-VAL-3
    #[test]
    fn words_and_seconds() {
        assert_eq!(
            refused(r#""containers": [{"name": "c"}], "restartPolicy": "always""#),
            "`spec.restartPolicy`: Unsupported value: \"always\": supported values: \"Always\", \"OnFailure\", \"Never\""
        );
        assert!(
            refused(r#""containers": [{"name": "c", "restartPolicy": "No"}]"#)
                .starts_with("`spec.containers[0].restartPolicy`")
        );
        assert!(
            refused(r#""containers": [{"name": "c"}], "dnsPolicy": "Own""#)
                .starts_with("`spec.dnsPolicy`")
        );
        assert_eq!(
            refused(r#""containers": [{"name": "c"}], "activeDeadlineSeconds": 0"#),
            "`spec.activeDeadlineSeconds`: Invalid value: \"0\": must be between 1 and 2147483647, inclusive"
        );
    }

    /// A-VAL-4
    #[test]
    fn tolerations() {
        let of = |toleration: &str| {
            refused(&format!(r#""containers": [{{"name": "c"}}], "tolerations": [{toleration}]"#))
        };
        assert!(of("{}").starts_with("`spec.tolerations[0].operator`: "));
        assert!(
            of(r#"{"operator": "Exists", "value": "x"}"#)
                .starts_with("`spec.tolerations[0].value`: ")
        );
        let seconds = r#"{"key": "a", "operator": "Exists", "tolerationSeconds": 3}"#;
        assert!(of(seconds).starts_with("`spec.tolerations[0].effect`: "));
        assert_eq!(of(r#"{"operator": "Exists"}, {"key": "a", "value": "b"}"#), "ok");
    }
}
