//! Suppositions about the cluster: manifests that are supposed to be added, and nodes and pods that are supposed to be
//! gone or cordoned. They never change the cluster itself.

mod change;
mod suppose;

use std::path::PathBuf;
use std::str::FromStr;

use berth_engine::PodKey;

pub(super) use change::Change;

use super::input::InputArgs;
use super::output;

/// Flags that suppose another cluster.
///
/// They are applied in one order whatever theirs on the command line: manifests, then removals, then cordons, then the
/// pods of workloads in the manifests.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct WhatIfArgs {
    /// Suppose that the objects of FILE were there too (a folder, or `-` for standard input); repeatable
    ///
    /// FILE holds ordinary manifests or a dump: nodes, pods and whatever else placements depend on,
    /// PodDisruptionBudgets included. Each takes the place of the object of its name, whole. A pod with `spec.nodeName`
    /// runs there. A workload such as a Deployment gets its pods, which are placed before the question is answered. The
    /// cluster itself stays as it is: a server answers from a session that is closed afterwards. With `--session` that
    /// session is changed, and stays so.
    #[arg(long, value_name = "FILE")]
    what_if: Vec<PathBuf>,
    /// Suppose that this node or pod were gone, for example `node/n1` or `pod/shop/web-0`; repeatable
    ///
    /// The pods of a node that is gone go with it, and are placed nowhere else.
    #[arg(long, value_name = "KIND/NAME")]
    without: Vec<Gone>,
    /// Suppose that this node were cordoned; repeatable (of a dump; to cordon another node, give its manifest to `--what-if`)
    #[arg(long, value_name = "NODE", conflicts_with_all = ["server", "kube"])]
    cordon: Vec<String>,
}

/// What becomes of the pods of supposed workloads.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum SupposedPods {
    /// They are placed first, and take their room; those that fit nowhere are pending.
    Placed,
    /// They are pending, and decided with the other pending pods.
    Pending,
}

/// Suppositions, with all that is needed to apply them.
pub(super) struct Suppositions<'a> {
    args: &'a WhatIfArgs,
    input: &'a InputArgs,
    pods: SupposedPods,
}

/// Something that is supposed to be gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    /// The node of this name.
    Node(String),
    /// A pod, on a node or pending.
    Pod(PodKey),
}

impl FromStr for Gone {
    type Err = String;

    fn from_str(text: &str) -> Result<Gone, String> {
        let expected = "expected `node/NAME` or `pod/NAMESPACE/NAME`";
        let (kind, name) = text.split_once('/').ok_or(expected)?;
        let is_name = |name: &str| !name.is_empty() && !name.contains('/');
        match kind {
            "node" | "nodes" if is_name(name) => Ok(Gone::Node(name.to_owned())),
            "pod" | "pods" => match name.split_once('/') {
                Some((namespace, name)) if is_name(namespace) && is_name(name) => {
                    Ok(Gone::Pod(PodKey::new(namespace, name)))
                }
                _ => Err(expected.to_owned()),
            },
            _ => Err(expected.to_owned()),
        }
    }
}

impl Gone {
    /// Name in messages.
    pub(super) fn text(&self) -> String {
        match self {
            Gone::Node(name) => format!("node `{name}`"),
            Gone::Pod(key) => format!("pod `{key}`"),
        }
    }
}

impl WhatIfArgs {
    /// The suppositions that the objects of these files were there, and that other objects were gone.
    pub(super) fn of(what_if: Vec<PathBuf>, without: Vec<Gone>) -> WhatIfArgs {
        WhatIfArgs { what_if, without, cordon: Vec::new() }
    }

    /// Whether nothing is supposed.
    pub(super) fn is_empty(&self) -> bool {
        self.what_if.is_empty() && self.without.is_empty() && self.cordon.is_empty()
    }

    /// The suppositions, with the flags on how their files are read, and what becomes of pods of workloads.
    pub(super) fn with<'a>(&'a self, input: &'a InputArgs, pods: SupposedPods) -> Suppositions<'a> {
        Suppositions { args: self, input, pods }
    }

    /// The nodes to cordon, by name.
    pub(super) fn cordoned(&self) -> &[String] {
        &self.cordon
    }

    /// One line for people that lists the suppositions. `n_objects` is the number of objects in the manifests.
    fn summary(&self, n_objects: usize) -> String {
        let mut parts = Vec::new();
        if !self.what_if.is_empty() {
            parts.push(format!("{} added or replaced", output::count(n_objects, "object")));
        }
        if !self.without.is_empty() {
            let gone: Vec<String> = self.without.iter().map(Gone::text).collect();
            parts.push(format!("{} gone", gone.join(", ")));
        }
        if !self.cordon.is_empty() {
            let nodes: Vec<String> = self.cordon.iter().map(|name| format!("`{name}`")).collect();
            parts.push(format!("node {} cordoned", nodes.join(", ")));
        }
        format!("what if: {}", parts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_objects_are_named_by_kind() {
        let gone = |text: &str| text.parse::<Gone>();
        assert_eq!(gone("node/n1"), Ok(Gone::Node("n1".to_owned())));
        assert_eq!(gone("pod/shop/web"), Ok(Gone::Pod(PodKey::new("shop", "web"))));
        assert_eq!(gone("pods/shop/web").unwrap().text(), "pod `shop/web`");
        for bad in ["n1", "node/", "node/a/b", "pod/web", "pod//web", "pod/a/b/c", "pdb/a/b", ""] {
            let error = gone(bad).unwrap_err();
            assert_eq!(error, "expected `node/NAME` or `pod/NAMESPACE/NAME`", "{bad}");
        }
    }

    #[test]
    fn the_summary_lists_the_suppositions() {
        let args = WhatIfArgs {
            what_if: vec!["a.yaml".into()],
            without: vec!["node/n1".parse().unwrap(), "pod/a/b".parse().unwrap()],
            cordon: vec!["n2".to_owned()],
        };
        assert_eq!(
            args.summary(2),
            "what if: 2 objects added or replaced; node `n1`, pod `a/b` gone; node `n2` cordoned"
        );
        assert!(!args.is_empty() && WhatIfArgs::default().is_empty());
    }
}
