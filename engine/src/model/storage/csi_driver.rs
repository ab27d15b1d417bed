//! CSIDriver: whether the driver reports capacity (S-VLB-7), and whether pods need it on their nodes (S-137-20).

use berth_proto::{meta_v1, storage_v1};

use crate::model::intern::{Interner, Symbol};
use crate::model::key::ObjectKey;
use crate::model::object::Compile;
use crate::model::{Model, ModelError};

/// Facts of a driver.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct CsiDriver {
    pub(crate) name: Symbol,
    /// Whether a claim needs a CSIStorageCapacity that is large enough.
    pub(crate) reports_capacity: bool,
    /// Whether no pod may run on a node without the driver that its volumes need.
    pub(crate) is_required: bool,
}

impl Compile for storage_v1::CsiDriver {
    type Facts = CsiDriver;

    fn compile(
        &self,
        _: &meta_v1::ObjectMeta,
        key: &ObjectKey,
        model: &Model,
    ) -> Result<CsiDriver, ModelError> {
        let names = model.names();
        Ok(CsiDriver::compile(self, key, names))
    }
}

impl CsiDriver {
    pub(crate) fn compile(
        driver: &storage_v1::CsiDriver,
        key: &ObjectKey,
        names: &Interner,
    ) -> CsiDriver {
        let spec = driver.spec.as_ref();
        CsiDriver {
            name: names.intern(&key.name),
            reports_capacity: spec.is_some_and(|spec| spec.storage_capacity == Some(true)),
            is_required: spec
                .is_some_and(|spec| spec.prevent_pod_scheduling_if_missing == Some(true)),
        }
    }
}
