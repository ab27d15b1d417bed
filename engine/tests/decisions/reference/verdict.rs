//! Compares the engine's verdicts with the naive scheduler's.

use berth_engine::{
    EngineError, Explanation, Outcome, Placement, Plugin, StatusCode, Unschedulable, VolumeBindings,
};

use crate::naive::attempt::{Account, Attempt};
use crate::naive::volume_binding::Bindings;

/// End of a text that is only the beginning of the message.
const OPEN_END: &str = ": ";

pub(crate) fn check_explanation(expected: &Attempt, explained: &Result<Explanation, EngineError>) {
    match (expected, explained) {
        (Attempt::Error, Err(EngineError::SchedulerError { .. })) => {}
        (Attempt::Gated(reason), Ok(explanation)) => {
            let outcome =
                Outcome::Gated { plugin: Plugin::SchedulingGates, reasons: vec![reason.clone()] };
            assert_eq!(explanation.decision.outcome, outcome);
        }
        (Attempt::Refused { message, by }, Ok(explanation)) => {
            let Outcome::Unschedulable(unschedulable) = &explanation.decision.outcome else {
                panic!("{:?} instead of {message}", explanation.decision.outcome);
            };
            check_refusal(message, by.as_ref(), unschedulable);
            assert_eq!(explanation.nodes, []);
        }
        (Attempt::Decided(account), Ok(explanation)) => check_account(account, explanation),
        (expected, explained) => panic!("expected {expected:?}, got {explained:?}"),
    }
}

fn check_refusal(message: &str, by: Option<&(Plugin, String)>, got: &Unschedulable) {
    let code = StatusCode::UnschedulableAndUnresolvable;
    let open = by.filter(|(_, reason)| reason.ends_with(OPEN_END));
    let Some((plugin, start)) = open else {
        let expected = by.map(|(plugin, reason)| (*plugin, code, vec![reason.clone()]));
        assert_eq!((got.message.as_str(), &got.pre_filter), (message, &expected));
        return;
    };
    let Some((got_plugin, got_code, reasons)) = &got.pre_filter else {
        panic!("{got:?} instead of {message}");
    };
    assert_eq!((got_plugin, got_code, reasons.len()), (plugin, &code, 1));
    assert!(reasons[0].starts_with(start) && reasons[0].len() > start.len(), "{reasons:?}");
    assert!(got.message.ends_with(&format!("nodes are available: {}.", reasons[0])), "{got:?}");
}

fn check_account(account: &Account, explanation: &Explanation) {
    for (expected, got) in account.nodes.iter().zip(&explanation.nodes) {
        assert_eq!(expected, got);
    }
    assert_eq!(account.nodes.len(), explanation.nodes.len());
    assert_eq!(account.best, explanation.best);
    match &explanation.decision.outcome {
        Outcome::Placed(placement) => {
            assert!(
                account.best.contains(&placement.node),
                "{placement:?} is not one of {:?}",
                account.best
            );
            let expected = Placement {
                node: placement.node.clone(),
                total: account.total,
                n_feasible: account.n_feasible,
                n_best: account.best.len() as u32,
                assumed: false,
                stamp: None,
                volumes: VolumeBindings::from(&account.volumes[&*placement.node]),
                devices: None,
            };
            assert_eq!(*placement, expected);
            assert_eq!(explanation.remedies, []);
        }
        Outcome::Unschedulable(unschedulable) => {
            assert_eq!(account.n_feasible, 0);
            let expected = Unschedulable {
                message: account.message.clone(),
                reasons: account.reasons.clone(),
                pre_filter: None,
                n_nodes: account.nodes.len() as u32,
            };
            assert_eq!(*unschedulable, expected);
        }
        Outcome::Gated { .. } => panic!("{:?}", explanation.decision),
    }
}

impl From<&Bindings> for VolumeBindings {
    fn from(bindings: &Bindings) -> VolumeBindings {
        let pair =
            |(claim, volume): &(String, String)| (claim.as_str().into(), volume.as_str().into());
        VolumeBindings {
            bound: bindings.bound.iter().map(pair).collect(),
            provisioned: bindings.provisioned.iter().map(|claim| claim.as_str().into()).collect(),
        }
    }
}

impl From<&VolumeBindings> for Bindings {
    fn from(bindings: &VolumeBindings) -> Bindings {
        let bound = bindings.bound.iter();
        Bindings {
            bound: bound.map(|(claim, volume)| (claim.to_string(), volume.to_string())).collect(),
            provisioned: bindings.provisioned.iter().map(ToString::to_string).collect(),
        }
    }
}
