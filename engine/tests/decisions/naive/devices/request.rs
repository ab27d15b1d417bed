//! Requests and subrequests in one form. Rule: S-DRA-48.

use std::collections::BTreeMap;

use berth_proto::Quantity;
use berth_proto::resource_v1::{
    CapacityRequirements, DeviceRequest, DeviceSelector, DeviceToleration,
};

/// A request, or a subrequest.
pub(super) struct Ask<'a> {
    pub(super) request: &'a str,
    /// REQUEST, or REQUEST/SUB.
    pub(super) name: String,
    /// How errors name it: REQUEST or SUB.
    pub(super) short: &'a str,
    pub(super) class: &'a str,
    pub(super) selectors: &'a [DeviceSelector],
    pub(super) is_all: bool,
    pub(super) count: i64,
    pub(super) is_admin: bool,
    pub(super) tolerations: &'a [DeviceToleration],
    capacity: Option<&'a CapacityRequirements>,
}

impl<'a> Ask<'a> {
    /// The request alone, or its subrequests in order.
    pub(super) fn of(request: &'a DeviceRequest) -> Vec<Ask<'a>> {
        if let Some(exactly) = &request.exactly {
            return vec![Ask {
                request: &request.name,
                name: request.name.clone(),
                short: &request.name,
                class: &exactly.device_class_name,
                selectors: &exactly.selectors,
                is_all: exactly.allocation_mode == "All",
                count: exactly.count,
                is_admin: exactly.admin_access == Some(true),
                tolerations: &exactly.tolerations,
                capacity: exactly.capacity.as_ref(),
            }];
        }
        let subrequests = request.first_available.iter();
        subrequests
            .map(|sub| Ask {
                request: &request.name,
                name: format!("{}/{}", request.name, sub.name),
                short: &sub.name,
                class: &sub.device_class_name,
                selectors: &sub.selectors,
                is_all: sub.allocation_mode == "All",
                count: sub.count,
                is_admin: false,
                tolerations: &sub.tolerations,
                capacity: sub.capacity.as_ref(),
            })
            .collect()
    }

    /// How much it asks of each capacity.
    pub(super) fn capacities(&self) -> BTreeMap<&'a str, &'a Quantity> {
        let requests = self.capacity.iter().flat_map(|capacity| &capacity.requests);
        requests.map(|(name, amount)| (&**name, amount)).collect()
    }
}
