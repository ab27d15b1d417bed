//! A node group as the command line gives it: a name, and a file with a node of the group, the pods on it and its devices.

use std::path::PathBuf;

use berth_proto::berth_v1::NodeGroup;
use berth_proto::core_v1::Pod;

use crate::cli::CliError;
use crate::cli::input::InputArgs;
use crate::cli::{lenient, manifest, output};
use crate::feed::file::{Located, Location, UnknownFields, WrittenObject};

/// `NAME=FILE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GroupFile {
    name: String,
    path: PathBuf,
}

impl GroupFile {
    /// Parses `NAME=FILE`.
    pub(super) fn parse(text: &str) -> Result<GroupFile, String> {
        match text.split_once('=') {
            Some((name, path)) if !name.is_empty() && !path.is_empty() => {
                Ok(GroupFile { name: name.to_owned(), path: path.into() })
            }
            _ => Err("expected NAME=FILE, such as general=node.yaml".to_owned()),
        }
    }

    /// Reads the file: one Node, the pods that run on every node of the group, and the node's ResourceSlices. A note
    /// names each object of another kind.
    ///
    /// # Errors
    /// A file that cannot be read, a refused object, no Node or several.
    pub(super) fn read(
        &self,
        input: &InputArgs,
        unknown_fields: UnknownFields,
    ) -> Result<NodeGroup, CliError> {
        let (mut nodes, mut pods, mut slices) = (Vec::new(), Vec::new(), Vec::new());
        for dump in input.read(&self.path, unknown_fields)? {
            if let Some(refused) = dump.refused.first() {
                return Err(CliError::Request(refused.to_string()));
            }
            lenient::warn(&dump.warnings);
            nodes.extend(dump.nodes.into_iter().map(|node| node.value));
            pods.extend(dump.pods.into_iter().map(|pod| contained(pod.value)));
            for Located { value, location } in dump.objects {
                match value {
                    WrittenObject::ResourceSlice(slice) => slices.push(*slice),
                    other => leave_out(other.as_wire().kind().name(), &location),
                }
            }
            for workload in dump.workloads {
                leave_out(workload.value.kind().name(), &workload.location);
            }
        }
        let n_nodes = nodes.len();
        match (nodes.pop(), n_nodes) {
            (Some(template), 1) => Ok(NodeGroup {
                id: self.name.clone(),
                template: Some(template),
                template_pods: pods,
                template_slices: slices,
                ..NodeGroup::default()
            }),
            _ => Err(CliError::Request(format!(
                "`{}` holds {n_nodes} nodes: a node group is told by one node, and the pods that run on each",
                self.path.display()
            ))),
        }
    }
}

fn leave_out(kind: &str, location: &Location) {
    output::note(&format!("note: {location}: {kind}: not a part of a node group, left out"));
}

fn contained(mut pod: Pod) -> Pod {
    manifest::contain(&mut pod);
    pod
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_a_name_and_a_file() {
        let parsed = GroupFile::parse("general=a/b=c.yaml").unwrap();
        assert_eq!((parsed.name.as_str(), parsed.path), ("general", PathBuf::from("a/b=c.yaml")));
        for wrong in ["general", "=a.yaml", "general=", ""] {
            assert!(GroupFile::parse(wrong).is_err(), "{wrong}");
        }
    }
}
