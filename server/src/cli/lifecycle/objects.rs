//! The objects of the files that a question names, each with its location.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use berth_engine::ModelError;
use berth_proto::core_v1::{Node, PersistentVolumeClaim, Pod};
use berth_proto::meta_v1::ObjectMeta;
use berth_proto::policy_v1::PodDisruptionBudget;

use crate::cli::{CliError, lenient, manifest, output};
use crate::feed::file::{Dump, Located, Refused, WrittenObject};
use crate::feed::object_name;

/// Objects in the files of the kinds that lifecycle questions use, in file order.
#[derive(Debug, Default)]
pub(super) struct Objects {
    pub(super) pods: Vec<Located<Pod>>,
    pub(super) nodes: Vec<Located<Node>>,
    pub(super) budgets: Vec<Located<PodDisruptionBudget>>,
    /// ReplicaSets, StatefulSets and all other objects.
    pub(super) others: Vec<WrittenObject>,
    /// Number of objects that could not be read or answered for; each is reported on standard error at once.
    pub(super) n_refused: usize,
    /// Start of an error that they hold too little: the files, and the verb for their number.
    hold: String,
}

/// Takes the one pod out of the objects.
///
/// # Errors
/// Any other number of pods, refused ones included.
pub(super) fn one_pod(mut objects: Objects) -> Result<(Located<Pod>, Objects), CliError> {
    let n_refused = objects.n_refused;
    let pods = std::mem::take(&mut objects.pods);
    let [pod] = <[Located<Pod>; 1]>::try_from(pods).map_err(|pods| {
        let n_pods = output::count(pods.len(), "pod");
        CliError::Request(format!(
            "{} {n_pods} ({n_refused} refused), one is asked about at a time",
            objects.hold
        ))
    })?;
    Ok((pod, objects))
}

/// The nodes of the files, by name.
#[derive(Debug, Default)]
pub(super) struct Nodes(BTreeMap<String, Node>);

impl Nodes {
    /// The node that the pod is bound to, if a file has it.
    pub(super) fn of(&self, pod: &Pod) -> Option<&Node> {
        self.0.get(bound_to(pod)?)
    }
}

/// Name of the node that the pod is bound to.
pub(super) fn bound_to(pod: &Pod) -> Option<&str> {
    let name = pod.spec.as_ref().map_or("", |spec| spec.node_name.as_str());
    Some(name).filter(|name| !name.is_empty())
}

/// Sets what a server would fill in: the namespace `default`.
fn in_a_namespace(pod: &mut Pod) {
    let metadata = pod.metadata.get_or_insert_default();
    if metadata.namespace.is_empty() {
        "default".clone_into(&mut metadata.namespace);
    }
}

impl Objects {
    /// Sorts what was read; `names` are the files. What cannot be used is reported.
    pub(super) fn of(dump: Dump, names: &[String]) -> Objects {
        lenient::warn(&dump.warnings);
        let verb = if names.len() == 1 { "holds" } else { "hold" };
        let hold = format!("{} {verb}", names.join(", "));
        let mut objects =
            Objects { pods: dump.pods, nodes: dump.nodes, hold, ..Objects::default() };
        for pod in &mut objects.pods {
            in_a_namespace(&mut pod.value);
        }
        for Located { value, location } in dump.objects {
            match value {
                WrittenObject::PodDisruptionBudget(mut budget) => {
                    let metadata = budget.metadata.get_or_insert_default();
                    if metadata.namespace.is_empty() {
                        "default".clone_into(&mut metadata.namespace);
                    }
                    objects.budgets.push(Located { value: *budget, location });
                }
                other => objects.others.push(other),
            }
        }
        for refused in dump.refused.iter().chain(&dump.misspelt_kinds.listed) {
            objects.refuse(refused);
        }
        let is_misspelt = |kind: &str| {
            dump.misspelt_kinds.listed.iter().any(|fault| fault.object.starts_with(kind))
        };
        let mut left: BTreeMap<String, usize> = dump.ignored_kinds;
        left.retain(|kind, _| !is_misspelt(kind));
        for workload in &dump.workloads {
            *left.entry(workload.value.kind().to_string()).or_default() += 1;
        }
        if !left.is_empty() {
            let kinds: Vec<String> = left.iter().map(|(kind, n)| output::count(*n, kind)).collect();
            output::note(&format!(
                "note: {}: lifecycle questions are about pods",
                kinds.join(", ")
            ));
        }
        objects
    }

    /// Takes the nodes out, to look up those of the pods. The second node of a name is reported and left out. If the
    /// files have nodes, but not those of all pods, a note names the missing ones: they count as ready and untainted.
    pub(super) fn take_nodes(&mut self) -> Nodes {
        let mut nodes = Nodes::default();
        for Located { value, location } in std::mem::take(&mut self.nodes) {
            match nodes.0.entry(manifest::node_name(&value).to_owned()) {
                Entry::Vacant(free) => drop(free.insert(value)),
                Entry::Occupied(taken) => self.refuse(&Refused {
                    location,
                    object: object_name("Node", value.metadata.as_ref()),
                    field: "metadata.name".to_owned(),
                    reason: format!("duplicate `{}`", taken.key()),
                }),
            }
        }
        let bound = self.pods.iter().filter_map(|pod| bound_to(&pod.value));
        let absent: BTreeSet<&str> = bound.filter(|name| !nodes.0.contains_key(*name)).collect();
        if !nodes.0.is_empty() && !absent.is_empty() {
            let list = absent.into_iter().collect::<Vec<_>>().join(", ");
            output::note(&format!("note: no file has node {list}, which counts as ready"));
        }
        nodes
    }

    /// Answers for each pod, in file order, with its name. A refused pod is reported and left out.
    ///
    /// # Errors
    /// There is no pod at all, not even a refused one.
    pub(super) fn ask<T>(
        &mut self,
        mut decide: impl FnMut(&Pod) -> Result<T, ModelError>,
    ) -> Result<Vec<(String, T)>, CliError> {
        let pods = std::mem::take(&mut self.pods);
        if pods.is_empty() && self.n_refused == 0 {
            return Err(self.hold_no("Pod"));
        }
        let mut answers = Vec::with_capacity(pods.len());
        for pod in pods {
            match decide(&pod.value) {
                Ok(answer) => answers.push((manifest::name_of(&pod.value), answer)),
                Err(error) => self.refuse(&refused(&pod, error)),
            }
        }
        Ok(answers)
    }

    /// The claims of the pod's namespace.
    pub(super) fn claims_beside(&self, pod: &Pod) -> Vec<PersistentVolumeClaim> {
        let of = |metadata: Option<&ObjectMeta>| match metadata {
            Some(metadata) if !metadata.namespace.is_empty() => metadata.namespace.clone(),
            Some(_) | None => "default".to_owned(),
        };
        let namespace = of(pod.metadata.as_ref());
        let claim = |object: &WrittenObject| match object {
            WrittenObject::PersistentVolumeClaim(claim) => Some((**claim).clone()),
            _ => None,
        };
        let claims = self.others.iter().filter_map(claim);
        claims.filter(|claim| of(claim.metadata.as_ref()) == namespace).collect()
    }

    /// Reports the pod for which a question about many pods was refused, and leaves it out; returns its index in
    /// `self.pods`. `place` maps an index in the question to that.
    ///
    /// # Errors
    /// The error itself, if it does not concern one pod.
    pub(super) fn refuse_one(
        &mut self,
        error: ModelError,
        place: impl FnOnce(usize) -> Option<usize>,
    ) -> Result<usize, ModelError> {
        let of_pod = indexed(&error.field, "pods")
            .and_then(|(index, field)| Some((place(index)?, field.to_owned())));
        let Some((place, field)) = of_pod.filter(|(place, _)| *place < self.pods.len()) else {
            return Err(error);
        };
        let pod = self.pods.remove(place);
        self.refuse(&refused(&pod, ModelError { field, ..error }));
        Ok(place)
    }

    /// Error for files without an object that the question is about.
    pub(super) fn hold_no(&self, kind: &str) -> CliError {
        CliError::Request(format!("{} no {kind}", self.hold))
    }

    /// Exit status: 1 if an object was refused, whatever the others' answers.
    pub(super) fn status(&self) -> ExitCode {
        if self.n_refused > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }

    fn refuse(&mut self, refused: &Refused) {
        output::note(&format!("refused: {refused}"));
        self.n_refused += 1;
    }
}

/// Splits a field of `list` into its index and the path below: `pods[2].spec` into 2 and `spec`.
pub(super) fn indexed<'a>(field: &'a str, list: &str) -> Option<(usize, &'a str)> {
    let (index, below) = field.strip_prefix(list)?.strip_prefix('[')?.split_once(']')?;
    Some((index.parse().ok()?, below.strip_prefix('.').unwrap_or(below)))
}

/// A pod that the engine refused, in the form of one that could not be read.
pub(super) fn refused(pod: &Located<Pod>, error: ModelError) -> Refused {
    let ModelError { field, reason } = error;
    let object = object_name("Pod", pod.value.metadata.as_ref());
    let field = field.strip_prefix("pod.").map_or(field.clone(), str::to_owned);
    Refused { location: pod.location.clone(), object, field, reason }
}

#[cfg(test)]
mod tests {
    use super::indexed;

    #[test]
    fn a_field_leads_to_its_element() {
        assert_eq!(indexed("pods[12].status.phase", "pods"), Some((12, "status.phase")));
        assert_eq!(indexed("pods[0]", "pods"), Some((0, "")));
        for field in ["pods", "pods[x].a", "pod[1].a", "nodes[1].a"] {
            assert_eq!(indexed(field, "pods"), None, "{field}");
        }
    }
}
