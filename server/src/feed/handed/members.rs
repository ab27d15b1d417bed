//! Members: the pods of a request, and the entries that stand for them.

use berth_proto::berth_v1::{BatchEntry, PlaceResult, decision, place_result};
use berth_proto::core_v1::Pod;

use super::{Group, identify, name_of, workload_name};
use crate::words::count;

/// A pod that is decided.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// `namespace/name`.
    pub(crate) name: String,
    /// Number of its workload; `None` for a pod of its own.
    pub(crate) workload: Option<usize>,
}

/// The entries of a request, and the pods that they expand to, in the same order. `replicas` is the number of copies of
/// pods of their own; a group of several has them already.
pub(crate) fn members(groups: Vec<Group>, replicas: u32) -> (Vec<BatchEntry>, Vec<Member>) {
    let (mut entries, mut members) = (Vec::new(), Vec::new());
    for (number, Group { pods, workload }) in groups.into_iter().enumerate() {
        let Some(workload) = workload else {
            let replicas = if pods.len() > 1 { 1 } else { replicas };
            for pod in pods {
                let name = name_of(&pod);
                if replicas > 1 {
                    let copy = |index| Member { name: format!("{name}-{index}"), workload: None };
                    members.extend((0..replicas).map(copy));
                } else {
                    members.push(Member { name, workload: None });
                }
                entries.push(BatchEntry { pod: Some(pod.into()), replicas });
            }
            continue;
        };
        let member = |pod: &Pod| Member { name: name_of(pod), workload: Some(number) };
        members.extend(pods.iter().map(member));
        match as_replicas(&pods).filter(|_| workload.are_alike) {
            Some(entry) => entries.push(entry),
            None => entries.extend(
                pods.into_iter().map(|pod| BatchEntry { pod: Some(pod.into()), replicas: 1 }),
            ),
        }
    }
    (entries, members)
}

/// Replaces names of which only the prefix was known by those that admission generated.
pub(crate) fn name_generated(members: &mut [Member], results: &[PlaceResult]) {
    for (member, result) in members.iter_mut().zip(results) {
        if let Some(place_result::Result::Decision(decision)) = &result.result
            && let Some(key) = &decision.pod
        {
            member.name = format!("{}/{}", key.namespace, key.name);
        }
    }
}

/// The workloads that create a pod only when the one before is ready: their numbers and names.
pub(crate) fn ordered(groups: &[Group]) -> Vec<(usize, String)> {
    let workloads = groups.iter().enumerate().filter_map(|(number, group)| {
        let workload = group.workload.as_ref().filter(|workload| workload.is_ordered)?;
        Some((number, workload_name(workload)))
    });
    workloads.collect()
}

/// Remarks on pods that are not created before another one has a node.
pub(crate) fn held_back(
    ordered: &[(usize, String)],
    members: &[Member],
    results: &[PlaceResult],
) -> Vec<String> {
    let remark = |(number, workload): &(usize, String)| {
        let mut pods =
            members.iter().zip(results).filter(|(member, _)| member.workload == Some(*number));
        let (first, _) = pods.find(|(_, result)| !has_node(result))?;
        let n = pods.count();
        (n > 0).then(|| {
            let name = &first.name;
            let n = count(n, "pod");
            format!("{workload} creates a pod when the one before is ready: {n} after {name} would have to wait for it")
        })
    };
    ordered.iter().filter_map(remark).collect()
}

/// Whether the pod of this result got a node.
pub(crate) fn has_node(result: &PlaceResult) -> bool {
    let Some(place_result::Result::Decision(decision)) = &result.result else { return false };
    matches!(decision.outcome, Some(decision::Outcome::Placement(_)))
}

/// Pods that differ only in the number at the end of their names, as one entry: a large request stays small.
fn as_replicas(pods: &[Pod]) -> Option<BatchEntry> {
    let first = pods.first().filter(|_| pods.len() > 1)?;
    let name = first.metadata.as_ref()?.name.strip_suffix("-0")?.to_owned();
    let mut pod = first.clone();
    let metadata = pod.metadata.get_or_insert_default();
    metadata.name = name;
    metadata.uid.clear();
    identify(&mut pod);
    Some(BatchEntry { pod: Some(pod.into()), replicas: u32::try_from(pods.len()).ok()? })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use berth_engine::workload::{ExpandOptions, Workload};

    use super::*;
    use crate::feed::file::{self, UnknownFields};

    fn group(json: &str) -> Group {
        let mut dump = file::parse(&Arc::from("f"), json, UnknownFields::Refuse).unwrap();
        let workload: Workload = dump.workloads.remove(0).value;
        let mut expansion = workload.expand(&ExpandOptions::default()).unwrap();
        let mut pods = std::mem::take(&mut expansion.pods);
        pods.iter_mut().for_each(identify);
        Group { pods, workload: Some(expansion) }
    }

    #[test]
    fn alike_pods_are_one_entry() {
        let json = |mode: &str| {
            format!(
                r#"{{"apiVersion": "batch/v1", "kind": "Job", "metadata": {{"name": "load"}}, "spec": {{
                    "parallelism": 3, "completions": 3, "completionMode": "{mode}", "template": {{
                    "spec": {{"restartPolicy": "Never", "containers": [{{"name": "c"}}]}}}}}}}}"#
            )
        };
        let (entries, found) = members(vec![group(&json("NonIndexed"))], 1);
        let [BatchEntry { pod: Some(pod), replicas: 3 }] = &entries[..] else {
            panic!("{entries:?}")
        };
        let metadata = pod.to_pod().unwrap().metadata.unwrap();
        assert_eq!((metadata.name.as_str(), metadata.uid.as_str()), ("load", "default/load"));
        let names: Vec<&str> = found.iter().map(|member| member.name.as_str()).collect();
        assert_eq!(names, ["default/load-0", "default/load-1", "default/load-2"]);

        let (entries, found) = members(vec![group(&json("Indexed"))], 1);
        assert_eq!((entries.len(), found.len()), (3, 3));
        assert_eq!((found[2].name.as_str(), found[2].workload), ("default/load-2-0", Some(0)));
    }

    #[test]
    fn pods_of_their_own_have_replicas() {
        let pod: Pod =
            serde_json::from_str(r#"{"metadata": {"name": "a", "namespace": "d"}}"#).unwrap();
        let names = |replicas| {
            let group = Group { pods: vec![pod.clone()], workload: None };
            let (entries, found) = members(vec![group], replicas);
            assert_eq!((entries.len(), entries[0].replicas), (1, replicas));
            found.into_iter().map(|member| member.name).collect::<Vec<_>>()
        };
        assert_eq!(names(1), ["d/a"]);
        assert_eq!(names(2), ["d/a-0", "d/a-1"]);
    }
}
