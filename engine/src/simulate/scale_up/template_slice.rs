//! TemplateSlice: the devices that each node of a group would bring along.

use std::sync::Arc;

use berth_proto::resource_v1;

use crate::model::label::clip;
use crate::model::{Model, ModelError, Object, WireObject};

/// A ResourceSlice of a group's template node, checked. Each added node gets a copy with its own name and pool.
#[derive(Clone, Debug, PartialEq)]
pub struct TemplateSlice(resource_v1::ResourceSlice);

impl TemplateSlice {
    /// Checks a slice: only the template's own devices are copied.
    pub(crate) fn check(
        slice: &resource_v1::ResourceSlice,
        template: &str,
        model: &Model,
    ) -> Result<TemplateSlice, ModelError> {
        let node = slice.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        if node != Some(template) {
            let found = match node.unwrap_or_default() {
                "" => "is not set".to_owned(),
                node => format!("is `{}`", clip(node)),
            };
            let reason = format!(
                "{found}, and the template is `{}`: its own devices are copied",
                clip(template)
            );
            return Err(ModelError::new("spec.nodeName", reason));
        }
        Object::compile(WireObject::from(slice), model)?;
        Ok(TemplateSlice(slice.clone()))
    }

    /// The copy for a node. The pool is named after the node; a node with several pools keeps their names in front.
    pub(super) fn of_node(
        &self,
        (node, template): (&Arc<str>, &str),
        i: usize,
        model: &Model,
    ) -> Result<Object, ModelError> {
        let mut slice = self.0.clone();
        slice.metadata.get_or_insert_default().name = format!("{node}-{i}");
        if let Some(spec) = &mut slice.spec {
            spec.node_name = Some(node.to_string());
            if let Some(pool) = &mut spec.pool {
                pool.name = match pool.name == template {
                    true => node.to_string(),
                    false => format!("{}-{node}", pool.name),
                };
            }
        }
        Object::compile(WireObject::from(&slice), model)
    }
}
