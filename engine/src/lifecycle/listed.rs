//! Lists of objects without duplicates. Names are sorted, not hashed, so names made to collide cost no more than
//! others.

use std::collections::BTreeMap;

use berth_proto::core_v1::{Node, Pod};

use super::reading::{given_text, in_list, meta, namespace};
use crate::model::ModelError;
use crate::model::label::clip;

/// Maps the name of each node of the list `nodes` to the result of `read`.
///
/// # Errors
/// [`ModelError`] at `nodes[i]` for a node without a name, for a duplicate name, and for an error of `read`.
pub(super) fn nodes_by_name<T>(
    nodes: &[Node],
    read: impl Fn(&Node) -> Result<T, ModelError>,
) -> Result<BTreeMap<&str, T>, ModelError> {
    let mut by_name = BTreeMap::new();
    for (index, node) in nodes.iter().enumerate() {
        let name = node.metadata.as_ref().map_or("", |metadata| &metadata.name);
        let name = in_list("nodes", index, given_text(name, "metadata.name"))?;
        let found = in_list("nodes", index, read(node))?;
        if by_name.insert(name, found).is_some() {
            let field = format!("nodes[{index}].metadata.name");
            return Err(ModelError::new(field, format!("duplicate `{}`", clip(name))));
        }
    }
    Ok(by_name)
}

/// Checks that no two pods of the list `pods` have the same name in the same namespace. `field` is the path of a name
/// within an element.
///
/// # Errors
/// [`ModelError`] at the second of two equal names.
pub(super) fn refuse_duplicates<'a>(
    pods: impl Iterator<Item = &'a Pod>,
    field: &str,
) -> Result<(), ModelError> {
    let place = |(index, pod): (usize, &'a Pod)| {
        let meta = meta(pod);
        (namespace(&meta.namespace), meta.name.as_str(), index)
    };
    let mut places: Vec<(&str, &str, usize)> = pods.enumerate().map(place).collect();
    places.sort_unstable();
    for pair in places.windows(2) {
        let (first, second) = (pair[0], pair[1]);
        if (first.0, first.1) == (second.0, second.1) {
            let reason = format!(
                "`{}/{}` is a duplicate of `pods[{}]`",
                clip(first.0),
                clip(first.1),
                first.2
            );
            return Err(ModelError::new(format!("pods[{}].{field}", second.2), reason));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn names_of_nodes_are_unique() {
        let error = |nodes: Value| {
            let nodes: Vec<Node> = serde_json::from_value(nodes).unwrap();
            nodes_by_name(&nodes, |_| Ok(())).unwrap_err().to_string()
        };
        let node = json!({"metadata": {"name": "n"}});
        assert_eq!(error(json!([node, {}])), "`nodes[1].metadata.name`: required");
        assert_eq!(error(json!([node, node])), "`nodes[1].metadata.name`: duplicate `n`");
    }

    #[test]
    fn no_namespace_is_the_default_one() {
        let check = |pods: Value| {
            let pods: Vec<Pod> = serde_json::from_value(pods).unwrap();
            refuse_duplicates(pods.iter(), "metadata.name").map_err(|error| error.to_string())
        };
        let named = |namespace: &str| json!({"metadata": {"name": "a", "namespace": namespace}});
        assert_eq!(check(json!([named("x"), named(""), named("y")])), Ok(()));
        let error = "`pods[2].metadata.name`: `default/a` is a duplicate of `pods[0]`";
        assert_eq!(check(json!([named("default"), named("x"), named("")])), Err(error.to_owned()));
    }
}
