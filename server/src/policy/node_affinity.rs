//! `addedAffinity`: a NodeAffinity object read strictly, unlike the same object in a pod (S-CFG-2 against W-JS-8).

use crate::document::decode::{self, Fields};
use berth_proto::core_v1::{
    NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PreferredSchedulingTerm,
};

pub(super) fn decode(fields: &mut Fields<'_>) -> NodeAffinity {
    NodeAffinity {
        required_during_scheduling_ignored_during_execution: fields
            .take("requiredDuringSchedulingIgnoredDuringExecution", |selector| {
                selector.object(node_selector)
            }),
        preferred_during_scheduling_ignored_during_execution: fields
            .take_or_default("preferredDuringSchedulingIgnoredDuringExecution", |list| {
                list.list(|item| item.object(preferred_term))
            }),
    }
}

fn node_selector(fields: &mut Fields<'_>) -> NodeSelector {
    NodeSelector {
        node_selector_terms: fields
            .take_or_default("nodeSelectorTerms", |list| list.list(|item| item.object(term))),
    }
}

fn preferred_term(fields: &mut Fields<'_>) -> PreferredSchedulingTerm {
    PreferredSchedulingTerm {
        weight: fields.take_or_default("weight", decode::integer),
        preference: fields.take("preference", |value| value.object(term)),
    }
}

fn term(fields: &mut Fields<'_>) -> NodeSelectorTerm {
    NodeSelectorTerm {
        match_expressions: fields
            .take_or_default("matchExpressions", |list| list.list(|item| item.object(requirement))),
        match_fields: fields
            .take_or_default("matchFields", |list| list.list(|item| item.object(requirement))),
    }
}

fn requirement(fields: &mut Fields<'_>) -> NodeSelectorRequirement {
    NodeSelectorRequirement {
        key: fields.take_or_default("key", decode::text),
        operator: fields.take_or_default("operator", decode::text),
        values: fields.take_or_default("values", decode::texts),
    }
}
