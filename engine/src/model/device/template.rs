//! ResourceClaimTemplate: kept by name. Claims are made from it by a controller, so no decision reads it.

use berth_proto::{meta_v1, resource_v1};

use super::shape::ClaimShape;
use crate::model::key::ObjectKey;
use crate::model::object::Compile;
use crate::model::{Model, ModelError};

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
        model: &Model,
    ) -> Result<ResourceClaimTemplate, ModelError> {
        let spec = self.spec.clone().unwrap_or_default();
        let devices = spec.spec.as_ref().and_then(|spec| spec.devices.as_ref());
        let checked =
            ClaimShape::compile(devices, model.names(), (model.selectors(), model.claim_shapes()));
        checked.map_err(|error| error.under("spec.spec.devices"))?;
        Ok(ResourceClaimTemplate { spec })
    }
}
