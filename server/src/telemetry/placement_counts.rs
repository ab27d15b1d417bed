//! What is decided for callers, over gRPC: how it ended, and how long the engine took.

use std::time::Duration;

use berth_engine::{Decision, EngineError, Outcome};

use super::description::{DURATION_BUCKETS, Description};
use super::{Counter, Histogram, Registry};

const PLACEMENTS: Description = Description::counter(
    "berth_placements_total",
    &["outcome"],
    "Pods decided, by outcome: placed, assumed, unschedulable, gated, refused; one assumed in a session is placed.",
);
const DURATION: Description = Description::seconds(
    "berth_place_duration_seconds",
    &["method"],
    &DURATION_BUCKETS,
    "Engine time of one request, by method.",
);

/// A method that decides; labels the time that the engine took.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum PlaceMethod {
    /// `Place`
    Place,
    /// `PlaceBatch`
    PlaceBatch,
    /// `PlaceStream`
    PlaceStream,
    /// `Explain`
    Explain,
    /// `Preempt`
    Preempt,
    /// `ListCandidates`
    ListCandidates,
    /// `SimulateScaleUp`
    SimulateScaleUp,
    /// `SimulateDrain`
    SimulateDrain,
    /// `Headroom`
    Headroom,
    /// `Consolidate`
    Consolidate,
    /// `ChooseScaleIn`
    ChooseScaleIn,
    /// `Fit`
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

/// Placements, counted.
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

    /// Counts one pod's outcome; what is assumed in a session `is_hypothetical`.
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

    /// Notes the engine time of one request.
    pub fn record_duration(&self, method: PlaceMethod, duration: Duration) {
        self.durations[method as usize].record_duration(duration);
    }
}
