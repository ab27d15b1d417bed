//! Taints of devices, and the tolerations of requests.

use std::sync::Arc;

use berth_proto::resource_v1;

use super::text::shared;
use crate::model::intern::Interner;

/// A taint of a device.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct DeviceTaint {
    pub(crate) key: Arc<str>,
    pub(crate) value: Arc<str>,
    pub(crate) effect: DeviceTaintEffect,
}

/// Effect of a device's taint.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum DeviceTaintEffect {
    NoSchedule,
    NoExecute,
    /// `None` or an unknown word, which keeps nothing away.
    Other(Arc<str>),
}

/// Which taints a request tolerates.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct DeviceToleration {
    /// The key; empty tolerates any.
    pub(crate) key: Arc<str>,
    pub(crate) operator: TolerationOperator,
    pub(crate) value: Arc<str>,
    /// The effect; empty tolerates any.
    pub(crate) effect: Arc<str>,
}

/// How a toleration compares values.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum TolerationOperator {
    Equal,
    Exists,
    /// An unknown word, which tolerates nothing.
    Unknown,
}

impl DeviceTaint {
    pub(super) fn compile(taint: &resource_v1::DeviceTaint, names: &Interner) -> DeviceTaint {
        DeviceTaint {
            key: shared(&taint.key, names),
            value: taint.value.as_str().into(),
            effect: match taint.effect.as_str() {
                "NoSchedule" => DeviceTaintEffect::NoSchedule,
                "NoExecute" => DeviceTaintEffect::NoExecute,
                other => DeviceTaintEffect::Other(other.into()),
            },
        }
    }
}

impl DeviceTaint {
    /// Whether the taint keeps nobody away who has these tolerations (S-DRA-81).
    pub(crate) fn is_tolerated(&self, tolerations: &[DeviceToleration]) -> bool {
        let effect = match &self.effect {
            DeviceTaintEffect::NoSchedule => "NoSchedule",
            DeviceTaintEffect::NoExecute => "NoExecute",
            DeviceTaintEffect::Other(_) => return true,
        };
        tolerations.iter().any(|toleration| toleration.tolerates(self, effect))
    }
}

impl DeviceToleration {
    /// Whether this tolerates a taint of an effect (S-DRA-82).
    fn tolerates(&self, taint: &DeviceTaint, effect: &str) -> bool {
        (self.effect.is_empty() || *self.effect == *effect)
            && (self.key.is_empty() || self.key == taint.key)
            && match self.operator {
                TolerationOperator::Equal => self.value == taint.value,
                TolerationOperator::Exists => true,
                TolerationOperator::Unknown => false,
            }
    }

    pub(super) fn compile(
        toleration: &resource_v1::DeviceToleration,
        names: &Interner,
    ) -> DeviceToleration {
        DeviceToleration {
            key: shared(&toleration.key, names),
            operator: match toleration.operator.as_str() {
                "" | "Equal" => TolerationOperator::Equal,
                "Exists" => TolerationOperator::Exists,
                _ => TolerationOperator::Unknown,
            },
            value: toleration.value.as_str().into(),
            effect: shared(&toleration.effect, names),
        }
    }
}
