//! The messages of conditions, written only on the way to the wire.

use berth_proto::core_v1::Pod;

use super::containers;
use super::finding::Text;
use super::recorded::{Recorded, is_true};
use crate::lifecycle::container_state::{Member, Roster};
use crate::lifecycle::reading;

/// The message, with the names that it has to contain.
pub(super) fn write(text: Text, pod: &Pod) -> String {
    match text {
        Text::None => String::new(),
        Text::Fixed(text) => text.to_owned(),
        Text::NotInitialized => {
            let what = "init containers that are not done";
            lacking(pod, Roster::init, what, containers::is_initialized)
        }
        Text::NotReady => lacking(pod, Roster::all, "containers that are not ready", |member| {
            !member.counts_for_readiness() || member.is_ready()
        }),
        Text::GatesUnmet => gates(pod),
    }
}

/// Names the containers that have a status but fail the check, and those without a status. The derivation has read the
/// pod before, so reading it again does not fail.
fn lacking<'a>(
    pod: &'a Pod,
    among: for<'r> fn(&'r Roster<'a>) -> &'r [Member<'a>],
    what: &str,
    holds: fn(&Member<'_>) -> bool,
) -> String {
    let Ok(roster) = Roster::of(pod) else { return String::new() };
    let names = |is_known: bool| {
        let lacking = among(&roster).iter().filter(|member| !holds(member));
        let lacking = lacking.filter(|member| member.observed.is_some() == is_known);
        lacking.map(Member::name).collect::<Vec<_>>().join(", ")
    };
    let parts = [(what, names(true)), ("containers without a status", names(false))];
    let parts = parts.iter().filter(|(_, names)| !names.is_empty());
    parts.map(|(what, names)| format!("{what}: {names}")).collect::<Vec<_>>().join("; ")
}

fn gates(pod: &Pod) -> String {
    let Ok(recorded) = Recorded::read(pod) else { return String::new() };
    let unmet = reading::spec(pod).readiness_gates.iter().filter_map(|gate| {
        let r#type = &gate.condition_type;
        match recorded.find(r#type) {
            Some(condition) if is_true(condition) => None,
            Some(condition) => Some(format!("`{type}` is {}", condition.status)),
            None => Some(format!("`{type}` is missing")),
        }
    });
    format!("readiness gates: {}", unmet.collect::<Vec<_>>().join(", "))
}
