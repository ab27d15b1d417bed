//! DeviceClass: selectors and configuration that requests refer to by name.

use std::sync::Arc;

use berth_proto::{meta_v1, resource_v1};

use super::selector::{DeviceSelector, selectors};
use super::text::{set, shared};
use crate::model::key::ObjectKey;
use crate::model::object::Compile;
use crate::model::{Model, ModelError};

/// Facts of a class of devices.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct DeviceClass {
    pub(crate) name: Arc<str>,
    pub(crate) selectors: Box<[DeviceSelector]>,
    /// Configuration for drivers, which allocations repeat.
    pub(crate) config: Box<[resource_v1::DeviceConfiguration]>,
    /// The extended resource that devices of the class provide, if it is not empty.
    pub(crate) extended_resource: Option<Arc<str>>,
    /// `metadata.creationTimestamp` in seconds since 1970, if it is set: the later of two classes that provide one
    /// extended resource counts.
    pub(crate) created: Option<i64>,
}

impl Compile for resource_v1::DeviceClass {
    type Facts = DeviceClass;

    fn compile(
        &self,
        metadata: &meta_v1::ObjectMeta,
        key: &ObjectKey,
        model: &Model,
    ) -> Result<DeviceClass, ModelError> {
        let names = model.names();
        let spec = self.spec.as_ref();
        let config = spec.map_or(&[][..], |spec| &spec.config);
        let config =
            config.iter().map(|config| config.device_configuration.clone().unwrap_or_default());
        Ok(DeviceClass {
            name: shared(&key.name, names),
            selectors: selectors(spec.map_or(&[][..], |spec| &spec.selectors), model.selectors()),
            config: config.collect(),
            extended_resource: set(spec.and_then(|spec| spec.extended_resource_name.as_ref())),
            created: metadata.creation_timestamp.and_then(|time| time.unix_seconds()),
        })
    }
}
