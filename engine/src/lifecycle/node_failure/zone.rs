//! Zones of nodes: how much of a zone is down, and how fast nodes may be tainted there.

use std::collections::BTreeMap;

use berth_proto::berth_v1::{
    ZoneCounts, ZoneDisruptionRequest, ZoneDisruptionResponse, ZoneOfRequest, ZoneOfResponse,
    ZonePace,
};

use crate::lifecycle::word::words;
use crate::model::ModelError;
use crate::model::label::clip;

words! {
    /// State of a zone: how much of it is down (L-NODE-7).
    enum ZoneState {
        /// At most single nodes are down.
        Normal = "Normal",
        /// A considerable part is down.
        PartialDisruption = "PartialDisruption",
        /// The whole zone is down.
        FullDisruption = "FullDisruption",
    }
}

/// Fewest nodes not ready for a partial disruption (L-NODE-7).
const FEWEST_NOT_READY: i64 = 3;

/// Rates, in nodes a second, and where they apply (L-NODE-7, L-NODE-8).
struct Rates {
    normal: f64,
    secondary: f64,
    large: i64,
    unhealthy: f64,
}

impl Rates {
    fn read(request: &ZoneDisruptionRequest) -> Result<Rates, ModelError> {
        let large = request.large_cluster_threshold.unwrap_or(50);
        if large < 0 {
            let reason = format!("`{large}` is negative");
            return Err(ModelError::new("largeClusterThreshold", reason));
        }
        Ok(Rates {
            normal: rate(request.eviction_rate.unwrap_or(0.1), "evictionRate", f64::MAX)?,
            secondary: rate(
                request.secondary_eviction_rate.unwrap_or(0.01),
                "secondaryEvictionRate",
                f64::MAX,
            )?,
            large,
            unhealthy: rate(
                request.unhealthy_threshold.unwrap_or(0.55),
                "unhealthyThreshold",
                1.0,
            )?,
        })
    }

    /// Rate for a zone (L-NODE-8), while the cluster is not down as a whole.
    fn of(&self, zone: &Zone) -> f64 {
        match zone.state(self.unhealthy) {
            ZoneState::Normal | ZoneState::FullDisruption => self.normal,
            ZoneState::PartialDisruption if zone.n_nodes() > i128::from(self.large) => {
                self.secondary
            }
            ZoneState::PartialDisruption => 0.0,
        }
    }
}

/// Reads a finite number from 0 to `most`.
fn rate(given: f64, field: &str, most: f64) -> Result<f64, ModelError> {
    if (0.0..=most).contains(&given) {
        return Ok(given);
    }
    let reason = match most {
        1.0 => format!("`{given}` is not between 0 and 1"),
        _ => format!("`{given}` is not a rate: negative or not finite"),
    };
    Err(ModelError::new(field, reason))
}

/// Counts of a zone's nodes; both are 0 or more.
struct Zone {
    ready: i64,
    not_ready: i64,
}

impl Zone {
    fn read(counts: &ZoneCounts) -> Result<Zone, ModelError> {
        for (count, field) in [(counts.ready, "ready"), (counts.not_ready, "notReady")] {
            if count < 0 {
                return Err(ModelError::new(field, format!("`{count}` is negative")));
            }
        }
        Ok(Zone { ready: counts.ready, not_ready: counts.not_ready })
    }

    fn n_nodes(&self) -> i128 {
        i128::from(self.ready) + i128::from(self.not_ready)
    }

    /// State of the zone (L-NODE-7). The quotient of the counts is rounded as the threshold was when it was read: 11 of
    /// 20 equals 0.55.
    fn state(&self, unhealthy: f64) -> ZoneState {
        let share = self.not_ready as f64 / self.n_nodes() as f64;
        if self.ready == 0 && self.not_ready > 0 {
            ZoneState::FullDisruption
        } else if self.not_ready >= FEWEST_NOT_READY && share >= unhealthy {
            ZoneState::PartialDisruption
        } else {
            ZoneState::Normal
        }
    }
}

/// `ZoneDisruption`: the rate at which nodes get NoExecute taints, zone by zone (L-NODE-7 to L-NODE-10). Without any
/// zone, nothing is stopped.
///
/// # Errors
/// [`ModelError`] for a negative count, and a rate or threshold out of its range.
pub fn zone_disruption(
    request: &ZoneDisruptionRequest,
) -> Result<ZoneDisruptionResponse, ModelError> {
    let rates = Rates::read(request)?;
    let mut zones = BTreeMap::new();
    for (name, counts) in &request.zones {
        let zone =
            Zone::read(counts).map_err(|error| error.under(&format!("zones[{}]", clip(name))))?;
        zones.insert(name, zone);
    }
    let is_down = |zone: &Zone| zone.state(rates.unhealthy) == ZoneState::FullDisruption;
    let stop = !zones.is_empty() && zones.values().all(is_down);
    let pace = |zone: &Zone| {
        let nodes_per_second = if stop { 0.0 } else { rates.of(zone) };
        ZonePace {
            state: zone.state(rates.unhealthy).word().to_owned(),
            nodes_per_second,
            burst: i32::from(nodes_per_second > 0.0),
        }
    };
    Ok(ZoneDisruptionResponse {
        zones: zones.iter().map(|(name, zone)| ((*name).clone(), pace(zone))).collect(),
        stop_all_evictions: stop,
        // Missing contact while the control plane was cut off says nothing about the nodes (L-NODE-10).
        reset_contact_times: request.was_stopped && !stop,
    })
}

/// `ZoneOf`: region and zone by a node's labels, the older labels first, and whether the node counts there (L-NODE-19,
/// L-NODE-20). A label counts even if its value is empty.
///
/// # Errors
/// Never fails: every set of labels has a zone.
pub fn zone_of(request: &ZoneOfRequest) -> Result<ZoneOfResponse, ModelError> {
    let label = |name: &str| {
        let old = request.labels.get(&format!("failure-domain.beta.kubernetes.io/{name}"));
        let new = || request.labels.get(&format!("topology.kubernetes.io/{name}"));
        Some(old.or_else(new).cloned().unwrap_or_default())
    };
    Ok(ZoneOfResponse {
        region: label("region"),
        zone: label("zone"),
        excluded: request.labels.contains_key("node.kubernetes.io/exclude-disruption"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(zones: &[(&str, i64, i64)]) -> ZoneDisruptionRequest {
        let counts = |&(name, ready, not_ready): &(&str, i64, i64)| {
            (name.to_owned(), ZoneCounts { ready, not_ready })
        };
        ZoneDisruptionRequest { zones: zones.iter().map(counts).collect(), ..Default::default() }
    }

    /// The defaults of L-NODE-7 and L-NODE-8.
    #[test]
    fn states_and_rates() {
        let request = of(&[("empty", 0, 0), ("full", 0, 1), ("large", 20, 31), ("small", 2, 3)]);
        let answer = zone_disruption(&request).unwrap();
        let states: Vec<_> = answer
            .zones
            .values()
            .map(|pace| (pace.state.as_str(), pace.nodes_per_second, pace.burst))
            .collect();
        let expected = [
            ("Normal", 0.1, 1),
            ("FullDisruption", 0.1, 1),
            ("PartialDisruption", 0.01, 1),
            ("PartialDisruption", 0.0, 0),
        ];
        assert_eq!(states, expected);
    }

    /// A share of exactly the threshold is enough, for every share that a decimal can express (L-NODE-7).
    #[test]
    fn shares_are_compared_as_they_are_written() {
        for percent in 1..100_u32 {
            let unhealthy = format!("0.{percent:02}").parse().unwrap();
            for times in [3, 7, 1000] {
                let not_ready = i64::from(percent) * times;
                let zone = Zone { ready: 100 * times - not_ready, not_ready };
                assert_eq!(zone.state(unhealthy), ZoneState::PartialDisruption, "{percent}");
                let zone = Zone { ready: zone.ready + 1, ..zone };
                assert_eq!(zone.state(unhealthy), ZoneState::Normal, "{percent}");
            }
        }
    }

    /// L-NODE-9, L-NODE-10: evictions stop while every zone is down; contact times are reset afterwards.
    #[test]
    fn all_zones_down() {
        let check = |request: ZoneDisruptionRequest, was_stopped| {
            let answer =
                zone_disruption(&ZoneDisruptionRequest { was_stopped, ..request }).unwrap();
            (answer.stop_all_evictions, answer.reset_contact_times)
        };
        assert_eq!(check(of(&[("a", 0, 1), ("b", 0, 9)]), false), (true, false));
        assert_eq!(check(of(&[("a", 0, 1), ("b", 0, 9)]), true), (true, false));
        assert_eq!(check(of(&[("a", 0, 1), ("b", 1, 8)]), true), (false, true));
        assert_eq!(check(of(&[("a", 0, 1), ("b", 0, 0)]), false), (false, false));
        assert_eq!(check(of(&[]), false), (false, false));
    }

    /// L-NODE-19, L-NODE-20: a label counts with any value.
    #[test]
    fn older_labels_first() {
        let labels = [
            ("node.kubernetes.io/exclude-disruption", "false"),
            ("failure-domain.beta.kubernetes.io/zone", ""),
            ("topology.kubernetes.io/zone", "z"),
            ("topology.kubernetes.io/region", "r"),
        ];
        let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let answer = zone_of(&ZoneOfRequest { labels }).unwrap();
        assert_eq!((answer.region.as_deref(), answer.zone.as_deref()), (Some("r"), Some("")));
        assert!(answer.excluded);
    }

    #[test]
    fn bad_input_is_refused_with_its_field() {
        let refused = |request| zone_disruption(&request).unwrap_err().to_string();
        assert_eq!(refused(of(&[("a", 1, -2)])), "`zones[a].notReady`: `-2` is negative");
        let request = of(&[]);
        assert_eq!(
            refused(ZoneDisruptionRequest { eviction_rate: Some(f64::NAN), ..request.clone() }),
            "`evictionRate`: `NaN` is not a rate: negative or not finite"
        );
        assert_eq!(
            refused(ZoneDisruptionRequest { unhealthy_threshold: Some(55.0), ..request.clone() }),
            "`unhealthyThreshold`: `55` is not between 0 and 1"
        );
        assert_eq!(
            refused(ZoneDisruptionRequest { large_cluster_threshold: Some(-1), ..request }),
            "`largeClusterThreshold`: `-1` is negative"
        );
        let huge = of(&[("a", i64::MAX, i64::MAX)]);
        assert_eq!(zone_disruption(&huge).unwrap().zones["a"].state, "Normal");
    }
}
