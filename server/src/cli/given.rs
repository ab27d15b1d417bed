//! Given: the pods that a command is about, from files, folders, standard input, or the cluster by name.

mod scope;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use berth_engine::PodKey;
use berth_engine::workload::Expansion;
use berth_proto::core_v1::Pod;

use super::backend::Backend;
use super::input::InputArgs;
use super::what_if::Change;
use super::{CliError, lenient, output, pods, workloads};
use crate::feed::file::{Dump, Located, Location};
use crate::feed::handed::{
    self, Beside, Group, Handed, Item, ignored_note, kinds_of, not_assumed, representative,
};

pub(super) use scope::{Listed, Scope};

/// The names on the command line, and how files are read.
pub(super) struct Names<'a> {
    /// Pods and files by position, then those of `-f`.
    named: Vec<Named<'a>>,
    input: &'a InputArgs,
}

/// A name on the command line.
enum Named<'a> {
    /// A pod of the dump.
    Pod { namespace: &'a str, name: &'a str },
    /// A file, a folder, or `-`.
    File(&'a Path),
}

/// What is to become of a workload.
#[derive(Copy, Clone, Default)]
pub(super) struct Wanted {
    /// Number of pods of each workload, instead of its own.
    pub(super) replicas: Option<u32>,
    /// Whether a server keeps the placements, so that nothing can be supposed.
    pub(super) assume: bool,
}

/// The pods of a command.
#[derive(Default)]
pub(super) struct Given {
    /// Pods and workloads in the order of the command line and of the files.
    pub(super) groups: Vec<Group>,
    /// Pending pods of schedulers that have no profile, which are not considered (S-Q-2).
    pub(super) of_others: Vec<Pod>,
    /// Number of objects that were refused; each is reported on standard error at once.
    pub(super) n_refused: usize,
    /// Remarks for the reader of the answer, a sentence each.
    pub(super) notes: Vec<String>,
}

impl Named<'_> {
    /// Whether the name means this pod of the dump.
    fn is(&self, pod: &Pod) -> bool {
        match (self, &pod.metadata) {
            (Named::Pod { namespace, name }, Some(metadata)) => {
                metadata.name == *name && metadata.namespace == *namespace
            }
            (Named::Pod { .. } | Named::File(_), _) => false,
        }
    }

    fn text(&self) -> String {
        match self {
            Named::Pod { namespace, name } => format!("{namespace}/{name}"),
            Named::File(path) => path.display().to_string(),
        }
    }
}

impl<'a> Names<'a> {
    /// Sorts out what is meant: a name of `pods` is a file if there is one, or else `namespace/name` of a pod, or with
    /// `-n` its name alone. `files` are files always.
    pub(super) fn of(pods: &'a [String], files: &'a [PathBuf], input: &'a InputArgs) -> Names<'a> {
        let by_position = pods.iter().map(|text| {
            let path = Path::new(text);
            match pod_named(text, input.namespace()) {
                Some((namespace, name)) if text != "-" && !path.exists() => {
                    Named::Pod { namespace, name }
                }
                _ => Named::File(path),
            }
        });
        let files = files.iter().map(|path| Named::File(path));
        Names { named: by_position.chain(files).collect(), input }
    }

    /// Whether `pod` of the dump is named.
    pub(super) fn is_named(&self, pod: &Pod) -> bool {
        self.named.iter().any(|named| named.is(pod))
    }

    /// The one pod, if the command names just one of the cluster: as it is there, on its node too.
    ///
    /// # Errors
    /// The errors of [`pods::as_it_is`].
    pub(super) async fn one_as_it_is(&self, backend: &Backend) -> Result<Option<Pod>, CliError> {
        match self.named.as_slice() {
            [Named::Pod { namespace, name }] => {
                pods::as_it_is(&PodKey::new(namespace, name), backend).await.map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Finds the pods, and supposes the other objects of the files on a fork.
    ///
    /// A named pod that runs already is taken off its node first, to decide where it would go.
    ///
    /// # Errors
    /// A file that cannot be read as a whole, files without pods and workloads, a name that the cluster does not have.
    pub(super) async fn find(
        &self,
        wanted: Wanted,
        backend: &mut Backend,
    ) -> Result<Given, CliError> {
        let mut given = Given::default();
        let mut handed = Handed::default();
        for named in &self.named {
            match named {
                Named::Pod { namespace, name } => {
                    let key = PodKey::new(namespace, name);
                    let pod = if wanted.assume {
                        pods::as_it_is(&key, backend).await?
                    } else {
                        pods::as_if_pending(&key, backend).await?
                    };
                    handed.items.push(Item::Known(Box::new(pod)));
                }
                Named::File(path) => {
                    let dumps = self.input.read(path, backend.unknown_fields())?;
                    self.take(path, dumps, &mut given, &mut handed);
                }
            }
        }
        let Handed { items, beside } = handed;
        if items.is_empty() && given.n_refused == 0 {
            return Err(self.hold_none(&given.notes));
        }
        suppose(beside, wanted, backend, &mut given).await?;
        given.group(items, wanted, backend).await?;
        Ok(given)
    }

    /// Finds the one pod, or the pod that stands for the one workload; `node` names the node whose pod of a DaemonSet is
    /// meant.
    ///
    /// # Errors
    /// The errors of [`Names::find`], and any other number of pods and workloads.
    pub(super) async fn find_one(
        &self,
        node: Option<&str>,
        backend: &mut Backend,
    ) -> Result<One, CliError> {
        let named = self.named.first().map(Named::text).unwrap_or_default();
        self.find(Wanted::default(), backend).await?.into_one(&named, node)
    }

    /// The error for files without pods and workloads; `notes` say what they hold.
    fn hold_none(&self, notes: &[String]) -> CliError {
        let names: Vec<String> =
            self.named.iter().map(|named| format!("`{}`", named.text())).collect();
        let verb = if names.len() == 1 { "holds" } else { "hold" };
        let none =
            format!("{} {verb} no Pod, and no workload such as a Deployment", names.join(", "));
        let lines: Vec<&str> =
            [none.as_str()].into_iter().chain(notes.iter().map(String::as_str)).collect();
        CliError::Request(lines.join("\n  "))
    }

    /// Takes the objects of one file or folder.
    fn take(&self, path: &Path, dumps: Vec<Dump>, given: &mut Given, handed: &mut Handed) {
        let mut ignored: BTreeMap<String, usize> = BTreeMap::new();
        for dump in dumps {
            let misspelt = &dump.misspelt_kinds;
            let refused = dump.refused.iter().map(ToString::to_string);
            for line in refused.chain(misspelt.lines()) {
                output::note(&format!("refused: {line}"));
            }
            given.n_refused += dump.refused.len() + misspelt.listed.len() + misspelt.n_more;
            lenient::warn(&dump.warnings);
            let is_misspelt =
                |kind: &str| misspelt.listed.iter().any(|fault| fault.object.starts_with(kind));
            for (kind, n) in dump.ignored_kinds.iter().filter(|(kind, _)| !is_misspelt(kind)) {
                *ignored.entry(kind.clone()).or_default() += n;
            }
            handed.add(dump);
        }
        for (kind, n) in ignored {
            given.notes.push(ignored_note(&format!("`{}`", path.display()), &kind, n));
        }
    }
}

/// The namespace and the name of a pod that is written as `namespace/name`, as `pod/name` like for kubectl, or with `-n`
/// as its name alone.
pub(super) fn pod_named<'a>(
    text: &'a str,
    namespace: Option<&'a str>,
) -> Option<(&'a str, &'a str)> {
    let is_kind = |word: &str| matches!(word, "pod" | "pods" | "po");
    match text.split_once('/') {
        Some((kind, rest)) if is_kind(kind) => match rest.split_once('/') {
            Some((namespace, name)) if !name.contains('/') => Some((namespace, name)),
            Some(_) => None,
            None => Some((namespace.unwrap_or("default"), rest)),
        },
        Some((namespace, name)) if !name.contains('/') => Some((namespace, name)),
        Some(_) => None,
        None => Some((namespace?, text)),
    }
}

/// Supposes objects that are given beside the pods: a chart's Services and claims, for example.
async fn suppose(
    beside: Vec<Located<Beside>>,
    wanted: Wanted,
    backend: &mut Backend,
    given: &mut Given,
) -> Result<(), CliError> {
    if beside.is_empty() {
        return Ok(());
    }
    let kinds = kinds_of(&beside);
    if wanted.assume {
        given.notes.push(format!(
            "{kinds} of the files not supposed: `--assume` takes the cluster as it is"
        ));
        return Ok(());
    }
    given.notes.push(format!("{kinds} of the files supposed to exist"));
    backend.fork_if_live().await?;
    let (changes, locations): (Vec<Change>, Vec<Location>) =
        beside.into_iter().map(|object| (object.value.into(), object.location)).unzip();
    for (index, reason) in backend.apply(changes).await? {
        match locations.get(index) {
            Some(location) => output::note(&format!("refused: {location}: {reason}")),
            None => output::note(&format!("refused: {reason}")),
        }
        given.n_refused += 1;
    }
    Ok(())
}

impl Given {
    /// Expands the workloads among the items, and keeps the order.
    async fn group(
        &mut self,
        items: Vec<Item>,
        wanted: Wanted,
        backend: &mut Backend,
    ) -> Result<(), CliError> {
        let mut ungrouped = handed::ungrouped(items, wanted.replicas.unwrap_or(1));
        self.notes.append(&mut ungrouped.notes);
        if let Some(workload) = ungrouped.workloads.first().filter(|_| wanted.assume) {
            let reason = not_assumed(workload.value.kind(), "--assume");
            return Err(CliError::Request(format!("{}: {reason}", workload.location)));
        }
        let workloads = std::mem::take(&mut ungrouped.workloads);
        let mut claims = std::mem::take(&mut ungrouped.claims);
        if wanted.assume {
            // The cluster is taken as it is, and has no claims of pods that are not created yet.
            claims.clear();
        }
        let expanded = workloads::expand(workloads, claims, wanted.replicas, backend).await?;
        for group in handed::grouped(ungrouped, expanded) {
            match group {
                Ok(mut group) => {
                    let notes = group.workload.iter_mut().map(|workload| &mut workload.notes);
                    notes.for_each(|notes| self.notes.append(notes));
                    self.groups.push(group);
                }
                Err(refused) => {
                    output::note(&format!("refused: {refused}"));
                    self.n_refused += 1;
                }
            }
        }
        Ok(())
    }

    /// The one pod, or the pod that stands for the one workload; `node` names the node whose pod of a DaemonSet is
    /// meant. `named` is the command's argument, for messages.
    ///
    /// # Errors
    /// Any other number of pods and workloads, a workload without pods.
    fn into_one(mut self, named: &str, node: Option<&str>) -> Result<One, CliError> {
        let n_refused = self.n_refused;
        if self.groups.len() != 1 || n_refused > 0 {
            let n_pods: usize = self.groups.iter().map(|group| group.pods.len()).sum();
            let n_workloads = self.groups.iter().filter(|group| group.workload.is_some()).count();
            let workloads = match n_workloads {
                0 => String::new(),
                n => format!(" of {}", output::count(n, "workload")),
            };
            return Err(CliError::Request(format!(
                "`{named}` holds {n_pods} pods{workloads} ({n_refused} refused), one is decided at a time"
            )));
        }
        let Some(group) = self.groups.pop() else {
            return Err(CliError::Request(format!("`{named}` holds no pod")));
        };
        match representative(group, node) {
            Ok((pod, workload, note)) => {
                self.notes.extend(note);
                Ok(One { pod, workload, notes: self.notes })
            }
            Err(reason) => {
                let lines = [reason.as_str()].into_iter();
                let lines: Vec<&str> = lines.chain(self.notes.iter().map(String::as_str)).collect();
                Err(CliError::Request(lines.join("\n  ")))
            }
        }
    }
}

/// The pod of a command that is about one.
pub(super) struct One {
    pub(super) pod: Pod,
    /// The workload that the pod was made of, without its pods.
    pub(super) workload: Option<Expansion>,
    pub(super) notes: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::pod_named;

    #[test]
    fn pods_are_named_as_for_kubectl_too() {
        assert_eq!(pod_named("shop/web-0", None), Some(("shop", "web-0")));
        assert_eq!(pod_named("pod/web-0", Some("shop")), Some(("shop", "web-0")));
        assert_eq!(pod_named("po/web-0", None), Some(("default", "web-0")));
        assert_eq!(pod_named("pods/shop/web-0", None), Some(("shop", "web-0")));
        assert_eq!(pod_named("web-0", Some("shop")), Some(("shop", "web-0")));
        for text in ["web-0", "a/b/c", "pod/a/b/c"] {
            assert_eq!(pod_named(text, None), None, "{text}");
        }
    }
}
