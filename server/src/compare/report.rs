//! Report: a comparison as it is asked for and answered over the wire. The command line prints the same message.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_engine::{KubernetesVersion, ModelError};
use berth_proto::berth_v1::{
    CompareRequest, CompareResponse, DecisionFigures, EvictionFigures, FigureSample, NamedPolicy,
    PolicyFigures, ResourceFigures, ResourceSample, WaitFigures,
};
use berth_proto::{MicroTime, Time};

use super::{Compared, Figures, Question, Rule, Sample, Usage};
use crate::policy::Profiles;
use crate::policy::configuration::DEFAULT_SCHEDULER_NAME;
use crate::service::convert;

/// Name of the figures of what was recorded.
pub(crate) const RECORDED: &str = "recorded";
/// Maximum number of policies of a request: each is a whole cluster in memory.
const MAX_POLICIES: usize = 4;
/// Length of a policy's name at most.
const MAX_NAME: usize = 253;

/// The names of the policies of a request, and the question that it asks.
///
/// # Errors
/// The first bad field, with its path.
pub(crate) fn asked(
    request: &CompareRequest,
    kubernetes: KubernetesVersion,
) -> Result<(Vec<String>, Question), ModelError> {
    let refused = |field: String, reason: String| Err(ModelError { field, reason });
    let CompareRequest { policies, include_recorded, until_full } = request;
    if policies.is_empty() || policies.len() > MAX_POLICIES {
        let reason = format!("must have one to {MAX_POLICIES} policies");
        return refused("policies".to_owned(), reason);
    }
    if *include_recorded && *until_full {
        let reason = "is not for `until_full`: no copies of the pods were recorded".to_owned();
        return refused("include_recorded".to_owned(), reason);
    }
    let mut names = Vec::new();
    let mut rules = Vec::new();
    if *include_recorded {
        names.push(RECORDED.to_owned());
        rules.push(Rule::AsRecorded);
    }
    for (index, NamedPolicy { name, configuration }) in policies.iter().enumerate() {
        if name.len() > MAX_NAME {
            let reason = format!("is longer than {MAX_NAME} bytes");
            return refused(format!("policies[{index}].name"), reason);
        }
        let profiles = match configuration.trim() {
            "" => Ok(Profiles::of_version(DEFAULT_SCHEDULER_NAME, kubernetes)),
            text => Profiles::read("configuration", text, kubernetes),
        };
        let field = format!("policies[{index}].configuration");
        match profiles {
            Ok(profiles) => rules.push(Rule::by(profiles)),
            Err(error) => return refused(field, error.to_string()),
        }
        names.push(name.clone());
    }
    Ok((names, Question { rules, until_full: *until_full, ..Question::default() }))
}

/// The answer: the figures under each rule, with its name.
pub(crate) fn response(names: &[String], compared: &Compared) -> CompareResponse {
    let (from, until) = compared.span;
    let policies = names.iter().zip(&compared.figures);
    CompareResponse {
        from: Time::try_from_unix_microseconds(from),
        until: Time::try_from_unix_microseconds(until),
        policies: policies.map(|(name, figures)| of_policy(name, figures)).collect(),
    }
}

fn of_policy(name: &str, figures: &Figures) -> PolicyFigures {
    let n_decisions = figures.n_decisions();
    PolicyFigures {
        name: name.to_owned(),
        n_came: figures.n_came,
        n_placed: figures.n_placed,
        n_waiting_at_end: figures.n_left,
        wait: Some(WaitFigures {
            total_seconds: figures.waited().as_secs_f64(),
            p50_seconds: figures.wait(50).as_secs_f64(),
            p99_seconds: figures.wait(99).as_secs_f64(),
            longest_seconds: figures.wait(100).as_secs_f64(),
        }),
        evictions: figures
            .evictions
            .iter()
            .map(|(&priority, &n_pods)| EvictionFigures { priority, n_pods })
            .collect(),
        resources: resources(figures),
        shares_when_first_refused: figures.first_refused.as_ref().map(shares).unwrap_or_default(),
        busy_nodes_average: figures.average(|sample| Some(as_f64(sample.n_busy))),
        emptiable_nodes_at_end: figures.n_emptiable.map(convert::saturate),
        cost: figures.cost(),
        decisions: (n_decisions > 0).then(|| DecisionFigures {
            n: n_decisions as u64,
            p50_micros: micros(figures.decision(50)),
            p99_micros: micros(figures.decision(99)),
        }),
        samples: figures.samples.iter().map(of_sample).collect(),
    }
}

fn shares(sample: &Sample) -> BTreeMap<String, f64> {
    sample.resources.iter().map(|(name, usage)| (name.to_string(), usage.share())).collect()
}

fn resources(figures: &Figures) -> BTreeMap<String, ResourceFigures> {
    let Some(end) = figures.samples.last() else { return BTreeMap::new() };
    let resource = |(name, usage): (&Arc<str>, &Usage)| {
        let average = |figure: fn(&Usage) -> f64| {
            figures.average(|sample| sample.resources.get(name).map(figure)).unwrap_or_default()
        };
        let resource = ResourceFigures {
            requested_average: average(Usage::share),
            requested_at_end: usage.share(),
            fragmentation_average: average(|it| it.fragmentation),
            fragmentation_at_end: usage.fragmentation,
            imbalance_average: average(|it| it.imbalance),
            zone_skew_average: average(|it| it.zone_skew),
        };
        (name.to_string(), resource)
    };
    end.resources.iter().map(resource).collect()
}

fn of_sample(sample: &Sample) -> FigureSample {
    let resource = |(name, usage): (&Arc<str>, &Usage)| {
        let (requested, fragmentation) = (usage.share(), usage.fragmentation);
        (name.to_string(), ResourceSample { requested, fragmentation })
    };
    FigureSample {
        time: MicroTime::try_from_unix_microseconds(sample.at),
        n_waiting: convert::saturate(sample.n_waiting),
        n_busy: convert::saturate(sample.n_busy),
        resources: sample.resources.iter().map(resource).collect(),
    }
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn as_f64(n: usize) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(configuration: &str) -> NamedPolicy {
        NamedPolicy { name: "a".to_owned(), configuration: configuration.to_owned() }
    }

    fn field(request: &CompareRequest) -> Option<String> {
        asked(request, KubernetesVersion::default()).err().map(|error| error.field)
    }

    #[test]
    fn a_bad_field_is_named() {
        let request = CompareRequest::default();
        assert_eq!(field(&request), Some("policies".to_owned()));
        let policies = vec![policy(""), policy("kind: Pod")];
        let request = CompareRequest { policies, ..CompareRequest::default() };
        assert_eq!(field(&request), Some("policies[1].configuration".to_owned()));
        let request =
            CompareRequest { policies: vec![policy("")], include_recorded: true, until_full: true };
        assert_eq!(field(&request), Some("include_recorded".to_owned()));
        let policies = vec![policy(""); 5];
        assert_eq!(
            field(&CompareRequest { policies, ..CompareRequest::default() }),
            Some("policies".to_owned())
        );
    }

    #[test]
    fn what_was_recorded_comes_first() {
        let policies = vec![policy("")];
        let request = CompareRequest { policies, include_recorded: true, until_full: false };
        let (names, question) = asked(&request, KubernetesVersion::default()).unwrap();
        assert_eq!(names, ["recorded", "a"]);
        assert_eq!(question.rules.len(), 2);
        let compared = Compared { span: (5_000_000, u64::MAX), figures: vec![Figures::default()] };
        let response = response(&names, &compared);
        assert_eq!(response.policies.len(), 1);
        let (from, until) = (response.from.unwrap(), response.until);
        assert_eq!((from.unix_seconds(), until), (Some(5), None));
    }
}
