//! Prioritize: scores of the nodes that could take the pod, 0 to 10. Rules: S-EXT-12, S-EXT-16.

use std::collections::HashSet;

use berth_engine::{Standing, Survey, SurveyRequest};

use super::arguments;
use super::failure::Failure;
use super::priority_levels::Levels;
use super::shared::Extender;
use super::text::{comma, string};
use crate::service::State;

/// Responds with a bare `HostPriorityList`: every name once, with 0 if Berth's filters refuse the node.
pub(super) fn prioritize(
    state: &State,
    extender: &Extender,
    body: &[u8],
) -> Result<Vec<u8>, Failure> {
    let arguments = arguments::read(body)?;
    let pod = state.cluster.compile_pod(&arguments.pod).map_err(|error| Failure::field(&error))?;
    let policy = extender.policies.of(&pod)?;
    let names = arguments.nodes.names();
    let request = SurveyRequest { pod: &pod, policy, with_totals: true };
    let survey = state.cluster.survey(&request, names.iter().copied())?;
    Ok(list(&names, &survey))
}

fn list(names: &[&str], survey: &Survey) -> Vec<u8> {
    let levels = Levels::of(&survey.standings);
    let mut out = Vec::with_capacity(64 * names.len() + 2);
    out.push(b'[');
    let mut seen_unknown = HashSet::new();
    for (name, standing) in names.iter().zip(&survey.standings) {
        // kube-scheduler adds up the scores of a host that is listed twice.
        let is_duplicate = match standing {
            Standing::Repeated => true,
            Standing::Unknown => !seen_unknown.insert(*name),
            Standing::Feasible { .. } | Standing::Refused(_) => false,
        };
        if is_duplicate {
            continue;
        }
        comma(&mut out, 1);
        out.extend_from_slice(b"{\"Host\":");
        string(&mut out, name);
        out.extend_from_slice(b",\"Score\":");
        match levels.score(*standing) {
            10 => out.extend_from_slice(b"10"),
            score => out.push(b'0' + score as u8),
        }
        out.push(b'}');
    }
    out.push(b']');
    out
}
