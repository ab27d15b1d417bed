//! Filter: the nodes that could take the pod, and the reasons why the others cannot. Rules: S-EXT-6 to S-EXT-10,
//! S-EXT-16.

use std::collections::HashSet;

use berth_engine::{Standing, StatusCode, Survey, SurveyRequest};

use super::arguments::{self, Nodes};
use super::failure::Failure;
use super::shared::Extender;
use super::text::{comma, string};
use crate::service::State;

/// Reason for a node that Berth does not know; evicting pods from it cannot help.
const UNKNOWN: &str = "node is not in Berth's snapshot of the cluster";

/// Responds with `ExtenderFilterResult` in the form of the request: every name once, kept nodes unchanged.
pub(super) fn filter(state: &State, extender: &Extender, body: &[u8]) -> Result<Vec<u8>, Failure> {
    let arguments = arguments::read(body)?;
    let pod = state.cluster.compile_pod(&arguments.pod).map_err(|error| Failure::field(&error))?;
    let policy = extender.policies.of(&pod)?;
    let names = arguments.nodes.names();
    let request = SurveyRequest { pod: &pod, policy, with_totals: false };
    let survey = state.cluster.survey(&request, names.iter().copied())?;
    if state.api_server.get().is_some() {
        // A bind only names the pod; the remembered one gives its requests if no feed has sent it by then.
        extender.recent_pods.remember(&pod);
    }
    Ok(result(&arguments.nodes, &names, &survey, body.len()))
}

fn result(nodes: &Nodes<'_>, names: &[&str], survey: &Survey, n_bytes: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(n_bytes + 256);
    match nodes {
        Nodes::Named(_) => {
            out.extend_from_slice(b"{\"Nodes\":null,\"NodeNames\":[");
            let opened = out.len();
            for (name, _) in names.iter().zip(&survey.standings).filter(|(_, s)| is_kept(**s)) {
                comma(&mut out, opened);
                string(&mut out, name);
            }
            out.push(b']');
        }
        Nodes::Whole(nodes) => {
            out.extend_from_slice(b"{\"Nodes\":{\"metadata\":{},\"items\":[");
            let opened = out.len();
            for ((_, raw), _) in nodes.iter().zip(&survey.standings).filter(|(_, s)| is_kept(**s)) {
                comma(&mut out, opened);
                out.extend_from_slice(raw.as_bytes());
            }
            out.extend_from_slice(b"]},\"NodeNames\":null");
        }
    }
    let Failed { resolvable, unresolvable } = failed(names, survey);
    out.extend_from_slice(b",\"FailedNodes\":{");
    out.extend_from_slice(&resolvable);
    out.extend_from_slice(b"},\"FailedAndUnresolvableNodes\":{");
    out.extend_from_slice(&unresolvable);
    out.extend_from_slice(b"},\"Error\":\"\"}");
    out
}

fn is_kept(standing: Standing) -> bool {
    matches!(standing, Standing::Feasible { .. })
}

/// Members of the two maps of refused nodes, as JSON.
#[derive(Default)]
struct Failed {
    /// Nodes where evicting pods might help.
    resolvable: Vec<u8>,
    /// Nodes where evicting pods cannot help.
    unresolvable: Vec<u8>,
}

fn failed(names: &[&str], survey: &Survey) -> Failed {
    let refusals: Vec<(StatusCode, Vec<u8>)> = survey
        .refusals
        .iter()
        .map(|refusal| {
            let mut message = Vec::new();
            string(&mut message, &refusal.reasons.join(", "));
            (refusal.code, message)
        })
        .collect();
    let unknown = (StatusCode::UnschedulableAndUnresolvable, format!("\"{UNKNOWN}\"").into_bytes());
    let mut failed = Failed::default();
    let mut seen_unknown = HashSet::new();
    for (name, standing) in names.iter().zip(&survey.standings) {
        let (code, message) = match standing {
            Standing::Feasible { .. } | Standing::Repeated => continue,
            Standing::Unknown if !seen_unknown.insert(*name) => continue,
            Standing::Unknown => &unknown,
            Standing::Refused(at) => refusals.get(*at as usize).unwrap_or(&unknown),
        };
        let map = match code {
            StatusCode::Unschedulable => &mut failed.resolvable,
            StatusCode::UnschedulableAndUnresolvable => &mut failed.unresolvable,
        };
        comma(map, 0);
        string(map, name);
        map.push(b':');
        map.extend_from_slice(message);
    }
    failed
}
