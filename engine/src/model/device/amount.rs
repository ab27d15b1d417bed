//! Amounts of capacities and counters: their value, and how it is written.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_proto::{Amount, Quantity};

use super::text::shared;
use crate::model::ModelError;
use crate::model::intern::Interner;
use crate::model::label::clip;

/// An amount with its notation: a capacity policy compares both, and allocations repeat the notation.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct NotedAmount {
    pub(crate) value: Amount,
    pub(crate) notation: Quantity,
}

impl NotedAmount {
    /// The amount at `field`; an absent one is zero. Unlike a pod's requests it may be negative.
    pub(super) fn compile(
        quantity: Option<&Quantity>,
        field: impl Fn() -> String,
    ) -> Result<NotedAmount, ModelError> {
        let notation = quantity.cloned().unwrap_or_default();
        let value = notation.parse();
        let value = value.map_err(|error| ModelError::new(field(), error.to_string()))?;
        Ok(NotedAmount { value, notation })
    }

    /// The amount at `field`, if it is set.
    pub(super) fn optional(
        quantity: Option<&Quantity>,
        field: impl Fn() -> String,
    ) -> Result<Option<NotedAmount>, ModelError> {
        quantity.map(|quantity| NotedAmount::compile(Some(quantity), field)).transpose()
    }
}

/// Amounts by name, in the order of names.
pub(crate) type NamedAmounts = Box<[(Arc<str>, NotedAmount)]>;

/// Compiles amounts by name.
pub(super) fn amounts(
    list: &BTreeMap<String, Quantity>,
    field: &str,
    names: &Interner,
) -> Result<NamedAmounts, ModelError> {
    let amount = |(name, quantity): (&String, &Quantity)| {
        let at = || format!("{field}[{}]", clip(name));
        Ok((shared(name, names), NotedAmount::compile(Some(quantity), at)?))
    };
    list.iter().map(amount).collect()
}
