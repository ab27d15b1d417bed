//! Counted: devices as a resource of a node, for scores of extended resources. Rule: S-DRA-108.

use std::sync::Arc;

use crate::cel;
use crate::model::device::class::DeviceClass;
use crate::model::device::published::Device;
use crate::model::device::slice::ResourceSlice;
use crate::snapshot::devices::Devices;
use crate::snapshot::devices::pool::Viewer;

/// Number of devices of a class that a node may use, and of those among them that any claim holds. Generations,
/// completeness and taints do not matter. Both are 0 where an expression fails.
///
/// Cost: an evaluation of the class's expressions for each device of every slice that may be the node's.
pub(crate) fn count(devices: &Devices, class: &DeviceClass, viewer: Viewer<'_>) -> (i64, i64) {
    let (mut n, mut n_held) = (0, 0);
    for slice in devices.slices_seen_from(viewer.node) {
        for device in &slice.devices {
            match is_counted(slice, device, class, viewer) {
                Err(()) => return (0, 0),
                Ok(false) => {}
                Ok(true) => {
                    n += 1;
                    n_held += i64::from(devices.allocated.of(device.id).is_some());
                }
            }
        }
    }
    (n, n_held)
}

fn is_counted(
    slice: &Arc<ResourceSlice>,
    device: &Device,
    class: &DeviceClass,
    viewer: Viewer<'_>,
) -> Result<bool, ()> {
    let is_here = if slice.nodes.is_set() {
        viewer.is_in(&slice.nodes).map_err(drop)?
    } else if slice.is_per_device {
        viewer.is_in(&device.nodes).map_err(drop)?
    } else {
        true
    };
    if !is_here {
        return Ok(false);
    }
    let device = device.for_expressions_as(false);
    for selector in &class.selectors {
        let Some(Ok(program)) = selector.0.as_ref().map(|selector| &selector.program) else {
            return Err(());
        };
        if !holds(program, &device)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn holds(program: &cel::Program, device: &cel::Device) -> Result<bool, ()> {
    program.evaluate(device).result.map_err(drop)
}
