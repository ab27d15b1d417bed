//! Shapes of claims: what a claim asks for, interned. Claims made from one template share one shape.

use std::sync::Arc;

use berth_proto::resource_v1;
use prost::Message as _;

use super::constraint::DeviceConstraint;
use super::request::DeviceRequest;
use super::selector::SelectorTable;
use crate::model::ModelError;
use crate::model::intern::Interner;
use crate::model::table::{Table, table_bytes};

/// Id of a shape as long as anything refers to it; ids are never reused.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct ClaimShapeId(u64);

/// What a claim asks for, interned. Two shapes of one table are equal exactly if their ids are.
#[derive(Debug)]
pub(crate) struct ClaimShape {
    pub(crate) id: ClaimShapeId,
    asked: Arc<Asked>,
}

/// What a claim asks for.
#[derive(PartialEq, Eq, Hash, Debug)]
pub(crate) struct Asked {
    pub(crate) requests: Box<[DeviceRequest]>,
    pub(crate) constraints: Box<[DeviceConstraint]>,
}

/// Interned shapes of all claims.
pub(crate) type ClaimShapeTable = Table<Arc<Asked>, ClaimShape>;

impl ClaimShape {
    /// The shape of a claim's specification; errors begin at its own fields.
    pub(super) fn compile(
        devices: Option<&resource_v1::DeviceClaim>,
        names: &Interner,
        (selectors, shapes): (&SelectorTable, &ClaimShapeTable),
    ) -> Result<Arc<ClaimShape>, ModelError> {
        let requests = devices.map_or(&[][..], |devices| &devices.requests).iter().enumerate();
        let constraints = devices.map_or(&[][..], |devices| &devices.constraints).iter();
        let request = |(i, request)| {
            let compiled = DeviceRequest::compile(request, names, selectors);
            compiled.map_err(|error| error.under(&format!("requests[{i}]")))
        };
        let asked = Asked {
            requests: requests.map(request).collect::<Result<_, _>>()?,
            constraints: constraints
                .map(|constraint| DeviceConstraint::compile(constraint, names))
                .collect(),
        };
        let n_bytes = table_bytes(devices.map_or(0, |devices| devices.encoded_len()));
        let make = |id, asked| (ClaimShape { id: ClaimShapeId(id), asked }, n_bytes);
        Ok(shapes.intern(Arc::new(asked), names.lease(), make))
    }

    pub(crate) fn requests(&self) -> &[DeviceRequest] {
        &self.asked.requests
    }

    pub(crate) fn constraints(&self) -> &[DeviceConstraint] {
        &self.asked.constraints
    }
}

impl PartialEq for ClaimShape {
    fn eq(&self, other: &ClaimShape) -> bool {
        self.id == other.id
    }
}
