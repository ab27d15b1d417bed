//! The containers of a pod's spec by their names.

use berth_proto::core_v1::{Container, EphemeralContainer, PodSpec};

use super::by_name::{ByName, Named};
use crate::model::ModelError;

/// The three lists of containers in a spec. A name is unique over all three lists, since statuses, plans and back-off
/// know a container by its name alone.
///
/// Cost: no allocation for lists of up to 64 containers.
#[derive(Clone, Debug)]
pub(crate) struct Names<'a> {
    pub(crate) init: ByName<'a, Container>,
    pub(crate) app: ByName<'a, Container>,
    pub(crate) ephemeral: ByName<'a, EphemeralContainer>,
}

impl<'a> Names<'a> {
    /// # Errors
    /// [`ModelError`], relative to the pod, for a duplicate name.
    pub(crate) fn of(spec: &'a PodSpec) -> Result<Names<'a>, ModelError> {
        let init = unique("initContainers", &spec.init_containers)?;
        let app = unique("containers", &spec.containers)?;
        let ephemeral = unique("ephemeralContainers", &spec.ephemeral_containers)?;
        let is_init = |name: &str| init.position(name).is_some();
        refuse("containers", app.items(), is_init)?;
        refuse("ephemeralContainers", ephemeral.items(), |name| {
            is_init(name) || app.position(name).is_some()
        })?;
        Ok(Names { init, app, ephemeral })
    }
}

fn unique<'a, T: Named>(list: &str, containers: &'a [T]) -> Result<ByName<'a, T>, ModelError> {
    ByName::new(containers).map_err(|at| twice(list, at, containers[at].name()))
}

/// Refuses containers with the name of an earlier one.
fn refuse<T: Named>(
    list: &str,
    containers: &[T],
    is_taken: impl Fn(&str) -> bool,
) -> Result<(), ModelError> {
    match containers.iter().position(|container| is_taken(container.name())) {
        Some(at) => Err(twice(list, at, containers[at].name())),
        None => Ok(()),
    }
}

fn twice(list: &str, at: usize, name: &str) -> ModelError {
    ModelError::new(format!("spec.{list}[{at}].name"), format!("duplicate `{name}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(spec: &str) -> Option<String> {
        let spec: PodSpec = serde_json::from_str(spec).unwrap();
        Names::of(&spec).err().map(|error| error.to_string())
    }

    /// L-CSTATE-1: a status belongs to exactly one container.
    #[test]
    fn a_name_is_one_containers_whatever_its_list() {
        let lists = r#"{"initContainers":[{"name":"i"}],"containers":[{"name":"a"},{"name":"APP"}],"ephemeralContainers":[{"name":"EPH"}]}"#;
        let with = |app: &str, eph: &str| check(&lists.replace("APP", app).replace("EPH", eph));
        assert_eq!(with("b", "e"), None);
        let app = Some("`spec.containers[1].name`: duplicate `i`".to_owned());
        assert_eq!(with("i", "e"), app);
        let app = Some("`spec.containers[1].name`: duplicate `a`".to_owned());
        assert_eq!(with("a", "e"), app);
        for name in ["i", "a", "b"] {
            let found = format!("`spec.ephemeralContainers[0].name`: duplicate `{name}`");
            assert_eq!(with("b", name), Some(found));
        }
    }
}
