//! Decisions for callers over gRPC: pods by outcome, and the engine's time by method.

use std::time::Duration;

use berth_engine::{Decision, EngineError, Outcome};
use metrics::{Counter, Histogram};

use super::Registry;
use super::description::{DURATION_BUCKETS, Description};

const PLACEMENTS: Description = Description::counter(
    "berth_placements_total",
    &["outcome"],
    "Decisions, one for each pod, by outcome: placed, assumed, unschedulable, gated, refused; a pod assumed in a session counts as placed.",
);
const DURATION: Description = Description::seconds(
    "berth_place_duration_seconds",
    &["method"],
    &DURATION_BUCKETS,
    "Engine time of one request, by method.",
);

/// A method that runs the engine. It labels the engine's time.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum PlaceMethod {
    /// The method `Place`.
    Place,
    /// The method `PlaceBatch`.
    PlaceBatch,
    /// The method `PlaceStream`.
    PlaceStream,
    /// The method `Explain`.
    Explain,
    /// The method `Preempt`.
    Preempt,
    /// The method `ListCandidates`.
    ListCandidates,
    /// The method `SimulateScaleUp`.
    SimulateScaleUp,
    /// The method `SimulateDrain`.
    SimulateDrain,
    /// The method `Headroom`.
    Headroom,
    /// The method `Consolidate`.
    Consolidate,
    /// The method `ChooseScaleIn`.
    ChooseScaleIn,
    /// The method `Fit`.
    Fit,
}

impl PlaceMethod {
    const ALL: [PlaceMethod; 12] = [
        PlaceMethod::Place,
        PlaceMethod::PlaceBatch,
        PlaceMethod::PlaceStream,
        PlaceMethod::Explain,
        PlaceMethod::Preempt,
        PlaceMethod::ListCandidates,
        PlaceMethod::SimulateScaleUp,
        PlaceMethod::SimulateDrain,
        PlaceMethod::Headroom,
        PlaceMethod::Consolidate,
        PlaceMethod::ChooseScaleIn,
        PlaceMethod::Fit,
    ];

    fn name(self) -> &'static str {
        match self {
            PlaceMethod::Place => "Place",
            PlaceMethod::PlaceBatch => "PlaceBatch",
            PlaceMethod::PlaceStream => "PlaceStream",
            PlaceMethod::Explain => "Explain",
            PlaceMethod::Preempt => "Preempt",
            PlaceMethod::ListCandidates => "ListCandidates",
            PlaceMethod::SimulateScaleUp => "SimulateScaleUp",
            PlaceMethod::SimulateDrain => "SimulateDrain",
            PlaceMethod::Headroom => "Headroom",
            PlaceMethod::Consolidate => "Consolidate",
            PlaceMethod::ChooseScaleIn => "ChooseScaleIn",
            PlaceMethod::Fit => "Fit",
        }
    }
}

/// Metrics of decisions.
pub struct PlacementCounts {
    placed: Counter,
    assumed: Counter,
    unschedulable: Counter,
    gated: Counter,
    refused: Counter,
    durations: [Histogram; PlaceMethod::ALL.len()],
}

impl PlacementCounts {
    pub(super) const DESCRIPTIONS: &'static [&'static Description] = &[&PLACEMENTS, &DURATION];

    pub(super) fn new(registry: &Registry) -> PlacementCounts {
        let placed = |outcome| registry.counter(&PLACEMENTS, &[outcome]);
        PlacementCounts {
            placed: placed("placed"),
            assumed: placed("assumed"),
            unschedulable: placed("unschedulable"),
            gated: placed("gated"),
            refused: placed("refused"),
            durations: PlaceMethod::ALL
                .map(|method| registry.histogram(&DURATION, &[method.name()])),
        }
    }

    /// Counts the decision about one pod. In a session the decision `is_hypothetical`, and an assumed pod counts as
    /// placed.
    pub fn count(&self, outcome: Result<&Decision, &EngineError>, is_hypothetical: bool) {
        let counter = match outcome.map(|decision| &decision.outcome) {
            Ok(Outcome::Placed(placement)) if placement.assumed && !is_hypothetical => {
                &self.assumed
            }
            Ok(Outcome::Placed(_)) => &self.placed,
            Ok(Outcome::Unschedulable(_)) => &self.unschedulable,
            Ok(Outcome::Gated { .. }) => &self.gated,
            Err(_) => &self.refused,
        };
        counter.increment(1);
    }

    /// Counts pods that never reached the engine.
    pub fn count_refused(&self, n_pods: usize) {
        self.refused.increment(n_pods as u64);
    }

    /// Records the engine's time for one request.
    pub fn record_duration(&self, method: PlaceMethod, duration: Duration) {
        self.durations[method as usize].record(duration);
    }
}
