//! Way: changes that remove an obstacle, and text that ways share.

use std::sync::Arc;

use super::change::RemedyChange;
use crate::model::port::HostPort;
use crate::plan::Plan;
use crate::plan::counted::Filtering;
use crate::rows::NodeRow;

/// One way: changes that are made together.
#[derive(Clone, Debug)]
pub(super) struct Way {
    pub(super) changes: Vec<RemedyChange>,
    pub(super) text: String,
    /// Cost of the way: of two ways with the same effect the cheaper one is tried first.
    pub(super) cost: i64,
}

impl Way {
    pub(super) fn new(change: RemedyChange, text: String) -> Way {
        Way { changes: vec![change], text, cost: 0 }
    }
}

/// Host ports of the pod, by position.
pub(super) fn chosen_ports<'a>(plan: &Plan<'a>, ports: u64) -> impl Iterator<Item = &'a HostPort> {
    let wanted = plan.shape().host_ports.iter().enumerate();
    wanted.filter(move |(i, _)| *i < 64 && ports >> i & 1 == 1).map(|(_, port)| port)
}

pub(super) fn ports_text(plan: &Filtering<'_, '_>, ports: u64) -> String {
    let text = |p: &HostPort| format!("{}/{}", p.port, plan.names().name(p.protocol));
    let mut texts: Vec<String> = chosen_ports(plan, ports).map(text).collect();
    texts.sort_unstable();
    texts.dedup();
    let noun = if texts.len() == 1 { "host port" } else { "host ports" };
    format!("{noun} {}", texts.join(", "))
}

pub(super) fn names_of(plan: &Filtering<'_, '_>, rows: &[NodeRow]) -> Vec<Arc<str>> {
    let mut names: Vec<Arc<str>> = rows.iter().map(|row| name_of(plan, *row)).collect();
    names.sort_unstable();
    names
}

pub(super) fn name_of(plan: &Filtering<'_, '_>, row: NodeRow) -> Arc<str> {
    plan.snapshot().node(row).map_or_else(|| "".into(), |node| node.facts().name.clone())
}
