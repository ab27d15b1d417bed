//! Constraints of a claim: conditions across the devices of several requests.

use std::sync::Arc;

use berth_proto::resource_v1;

use super::text::{shared, shared_list};
use crate::model::intern::Interner;

/// A constraint of a claim.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct DeviceConstraint {
    /// Names of the requests, `REQUEST` or `REQUEST/SUBREQUEST`; empty means all of them.
    pub(crate) requests: Box<[Arc<str>]>,
    pub(crate) rule: ConstraintRule,
}

/// The attribute that a constraint compares, by the name as it was written.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum ConstraintRule {
    /// All devices have one value.
    Match(Arc<str>),
    /// Devices have different values.
    Distinct(Arc<str>),
    /// Neither is set.
    Unknown,
}

impl DeviceConstraint {
    pub(super) fn compile(
        constraint: &resource_v1::DeviceConstraint,
        names: &Interner,
    ) -> DeviceConstraint {
        let rule = match (&constraint.match_attribute, &constraint.distinct_attribute) {
            (Some(name), _) => ConstraintRule::Match(shared(name, names)),
            (None, Some(name)) => ConstraintRule::Distinct(shared(name, names)),
            (None, None) => ConstraintRule::Unknown,
        };
        DeviceConstraint { requests: shared_list(&constraint.requests, names), rule }
    }
}
