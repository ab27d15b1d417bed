//! The answer for people: a row for each pod, the rejections that were asked for, and the sum.

use berth_proto::berth_v1::fit_result::Result as Outcome;
use berth_proto::berth_v1::{FitRefusal, FitResponse, NodeRejection};

use crate::cli::output::{self, Table};
use crate::feed::handed::Member;

/// The sections, to be separated by empty lines. `members` are the pods by position.
pub(super) fn sections(fit: &FitResponse, members: &[Member]) -> Vec<String> {
    if members.is_empty() {
        return vec!["no pods wait for a node".to_owned()];
    }
    let mut pods = Table::new(&["POD", "NODE", "MESSAGE"]).wrapping(2);
    let mut rejections = Table::new(&["POD", "NODE", "REFUSED BY", "BECAUSE"]).wrapping(3);
    let mut n_rejections = 0_usize;
    for (member, result) in members.iter().zip(&fit.results) {
        let name = &*member.name;
        match &result.result {
            Some(Outcome::Placement(placement)) => pods.add_row([name, &*placement.node_name, ""]),
            Some(Outcome::Refusal(refusal)) => {
                pods.add_row([name, "-", &message(refusal)]);
                for rejection in &refusal.rejections {
                    n_rejections += 1;
                    let none = NodeRejection::default();
                    let by = rejection.rejection.as_ref().unwrap_or(&none);
                    let reasons = by.reasons.join(", ");
                    rejections.add_row([name, &*rejection.node_name, &by.plugin, &reasons]);
                }
            }
            Some(Outcome::Error(error)) => {
                pods.add_row([name, "-", &*format!("refused: {}", error.message)]);
            }
            None => pods.add_row([name, "-", "-"]),
        }
    }
    let mut sections = vec![pods.text()];
    if n_rejections > 0 {
        sections.push(rejections.text());
    }
    let (n_fit, all) = (output::grouped(fit.n_fit), output::count(members.len(), "pod"));
    let of = match fit.n_controllers_skipped {
        0 => String::new(),
        n => format!("; pods of {} were skipped", output::count(n, "controller")),
    };
    sections.push(format!("{n_fit} of {all} fit{of}"));
    sections
}

fn message(refusal: &FitRefusal) -> String {
    let message = refusal.unschedulable.as_ref().map_or("-", |it| it.message.as_str());
    if refusal.skipped { format!("skipped, as one like it: {message}") } else { message.to_owned() }
}
