//! The nodes that can use a slice's devices, or one device.

use std::sync::Arc;

use berth_proto::core_v1;

use crate::model::intern::{Interner, Symbol};
use crate::model::selector::NodeSelector;

/// The three fields by which a slice or a device says where it can be used.
#[derive(Clone, Default, PartialEq, Debug)]
pub(crate) struct NodeSelection {
    /// `nodeName`, if it is not empty.
    pub(crate) node: Option<Symbol>,
    pub(crate) all_nodes: bool,
    pub(crate) selector: Option<Arc<DeviceNodeSelector>>,
}

/// A selector of the nodes that can use devices.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct DeviceNodeSelector {
    pub(crate) compiled: NodeSelector,
    /// Why the selector does not parse. It then matches no node, and looking at it is an error.
    pub(crate) invalid: Option<String>,
    /// The selector as it was written: an allocation repeats its requirements.
    pub(crate) written: core_v1::NodeSelector,
}

impl NodeSelection {
    /// Whether any of the three fields is set.
    pub(crate) fn is_set(&self) -> bool {
        self.node.is_some() || self.all_nodes || self.selector.is_some()
    }

    pub(super) fn compile(
        node: Option<&String>,
        all_nodes: Option<bool>,
        selector: Option<&core_v1::NodeSelector>,
        names: &Interner,
    ) -> NodeSelection {
        NodeSelection {
            node: node.filter(|name| !name.is_empty()).map(|name| names.intern(name)),
            all_nodes: all_nodes == Some(true),
            selector: selector.map(|selector| DeviceNodeSelector::compile(selector, names)),
        }
    }
}

impl DeviceNodeSelector {
    pub(super) fn compile(
        selector: &core_v1::NodeSelector,
        names: &Interner,
    ) -> Arc<DeviceNodeSelector> {
        Arc::new(DeviceNodeSelector {
            compiled: NodeSelector::compile(selector, names),
            invalid: NodeSelector::fault(selector).map(|fault| fault.to_string()),
            written: selector.clone(),
        })
    }
}
