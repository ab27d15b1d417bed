//! ResourceClaimTemplate: kept by name. Claims are made from it by a controller, so no decision reads it.

use berth_proto::{meta_v1, resource_v1};

use super::claim::check_spec;
use crate::model::ModelError;
use crate::model::intern::Interner;
use crate::model::key::ObjectKey;
use crate::model::object::Compile;

/// Facts of a template.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct ResourceClaimTemplate {
    /// Spec of the claims that are made from the template.
    pub(crate) spec: resource_v1::ResourceClaimTemplateSpec,
}

impl Compile for resource_v1::ResourceClaimTemplate {
    type Facts = ResourceClaimTemplate;

    fn compile(
        &self,
        _: &meta_v1::ObjectMeta,
        _: &ObjectKey,
        names: &Interner,
    ) -> Result<ResourceClaimTemplate, ModelError> {
        let spec = self.spec.clone().unwrap_or_default();
        check_spec(spec.spec.as_ref(), names).map_err(|error| error.under("spec.spec"))?;
        Ok(ResourceClaimTemplate { spec })
    }
}
