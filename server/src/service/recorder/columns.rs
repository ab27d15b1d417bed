//! Columns: many pods and their placements in a few bytes each. A call may place thousands of replicas, which differ in a
//! number and in their nodes only.

use std::sync::Arc;

use berth_engine::{self as engine, Decision, EngineError, Generation, Outcome, Pod};
use berth_proto::berth_v1 as wire;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::record::{Columns, RecordedPod};
use crate::service::{CallError, convert};

/// Names that a segment has written once, with their numbers from 1.
#[derive(Default)]
pub(super) struct Numbers(FxHashMap<Box<str>, u32>);

impl Numbers {
    /// The number of a name, and whether it is new.
    pub(super) fn of(&mut self, name: &str) -> (u32, bool) {
        if let Some(number) = self.0.get(name) {
            return (*number, false);
        }
        let number = convert::saturate(self.0.len() + 1);
        self.0.insert(name.into(), number);
        (number, true)
    }
}

/// Many short texts, one after the other.
#[derive(Debug, Default)]
pub(super) struct Texts {
    all: String,
    ends: SmallVec<[usize; 1]>,
}

impl Texts {
    fn push(&mut self, text: &str) {
        self.all.push_str(text);
        self.ends.push(self.all.len());
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Number of bytes that they take, about.
    pub(super) fn n_bytes(&self) -> usize {
        self.all.len() + self.ends.len() * size_of::<usize>()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        let mut start = 0;
        self.ends.iter().map(move |end| {
            let text = self.all.get(start..*end).unwrap_or_default();
            start = *end;
            text
        })
    }
}

/// Adds a result to the columns: a placement that is nothing but a node as its numbers, any other as it is. The node's name
/// goes to `nodes`.
pub(super) fn push(
    columns: &mut Columns,
    nodes: &mut Texts,
    result: Result<&Decision, &EngineError>,
    generation: Generation,
) {
    match result {
        Ok(Decision { outcome: Outcome::Placed(placed), generation: at, .. })
            if *at == generation && is_plain(placed) =>
        {
            nodes.push(&placed.node);
            // Scores are never negative: 0 stands for none.
            columns.scores.push(placed.total.map_or(0, |total| total + 1));
            columns.n_feasible.push(placed.n_feasible);
            columns.n_best.push(placed.n_best);
            columns.assumed.push(placed.assumed);
        }
        _ => {
            nodes.push("");
            let result = result.cloned().map_err(|error| CallError::undecided(error.clone()));
            columns.others.push(convert::place_result(result));
        }
    }
}

fn is_plain(placed: &engine::Placement) -> bool {
    placed.devices.is_none()
        && placed.volumes == engine::VolumeBindings::default()
        && placed.total.is_none_or(|total| total >= 0)
}

/// The results that columns stand for; `None` where the columns do not fit together.
pub(crate) fn results(
    columns: &Columns,
    generation: u64,
    mut pods: impl Iterator<Item = RecordedPod>,
    node_name: impl Fn(u32) -> Option<Arc<str>>,
) -> Option<Vec<wire::PlaceResult>> {
    let (mut placed, mut others) = (0, columns.others.iter());
    let mut results = Vec::with_capacity(columns.nodes.len());
    for node in &columns.nodes {
        let pod = pods.next();
        if *node == 0 {
            results.push(others.next()?.clone());
            continue;
        }
        let placement = wire::Placement {
            node_name: node_name(*node)?.to_string(),
            total_score: columns.scores.get(placed)?.checked_sub(1).filter(|total| *total >= 0),
            n_feasible_nodes: *columns.n_feasible.get(placed)?,
            n_best_nodes: *columns.n_best.get(placed)?,
            assumed: *columns.assumed.get(placed)?,
            ..wire::Placement::default()
        };
        let RecordedPod { namespace, name, uid, .. } = pod?;
        let key = wire::PodKey { namespace, name, uid };
        let outcome = Some(wire::decision::Outcome::Placement(placement));
        let decision = wire::Decision { pod: Some(key), generation, outcome };
        results.push(wire::PlaceResult {
            result: Some(wire::place_result::Result::Decision(decision)),
        });
        placed += 1;
    }
    Some(results)
}

/// Pods with one object, whose names and uids count up from those of the first: `NAME-0` or another number.
pub(super) struct Run<'a> {
    first: &'a Pod,
    count: u32,
    /// Name and uid of the first, taken apart; `None` where no other pod can be the next one.
    numbered: Option<Numbered<'a>>,
}

struct Numbered<'a> {
    number: u64,
    name: &'a str,
    /// `None` where there are no uids.
    uid: Option<&'a str>,
}

impl<'a> Run<'a> {
    pub(super) fn of(first: &'a Pod) -> Run<'a> {
        let parts = || {
            let is_like_others = first.shared_encoding().is_some() && first.node_name().is_none();
            let (name, number) = numbered(&first.key().name).filter(|_| is_like_others)?;
            let uid = match (numbered(first.uid()), first.uid()) {
                (Some((stem, at)), _) if at == number => Some(stem),
                (None, "") => None,
                _ => return None,
            };
            Some(Numbered { number: u64::from(number), name, uid })
        };
        Run { first, count: 0, numbered: parts() }
    }

    pub(super) fn first(&self) -> &'a Pod {
        self.first
    }

    /// Number of pods, as it is recorded: 0 for one.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Whether a pod is the next replica; then it is one of the run.
    pub(super) fn extend(&mut self, pod: &Pod) -> bool {
        let Some(parts) = &self.numbered else { return false };
        let next = parts.number + u64::from(self.count.max(1));
        let is_next = |text: &str, stem: &str| number_after(text, stem) == Some(next);
        let has_uid = match parts.uid {
            Some(stem) => is_next(pod.uid(), stem),
            None => pod.uid().is_empty(),
        };
        let is_next = has_uid
            && is_next(&pod.key().name, parts.name)
            && pod.node_name().is_none()
            && self.first.key().namespace == pod.key().namespace
            && self.first.has_object_of(pod);
        if is_next {
            self.count = self.count.max(1) + 1;
        }
        is_next
    }
}

/// The pods of a run, one after the other; a pod alone is one.
pub(super) fn expand(run: RecordedPod) -> impl Iterator<Item = RecordedPod> {
    let n = u64::from(run.count.max(1));
    let name = numbered(&run.name).map(|(stem, at)| (stem.to_owned(), u64::from(at)));
    let uid = numbered(&run.uid).map(|(stem, _)| stem.to_owned());
    (0..n).map(move |i| {
        let mut pod = RecordedPod { count: 0, ..run.clone() };
        if let Some((stem, at)) = name.as_ref().filter(|_| n > 1) {
            pod.name = format!("{stem}-{}", at + i);
            if let Some(stem) = &uid {
                pod.uid = format!("{stem}-{}", at + i);
            }
        }
        pod
    })
}

/// The stem and the number of `STEM-NUMBER`, if the number is written as numbers are.
fn numbered(text: &str) -> Option<(&str, u32)> {
    let (stem, digits) = text.rsplit_once('-')?;
    Some((stem, number(digits)?))
}

/// The number of `STEM-NUMBER` for this stem, likewise.
fn number_after(text: &str, stem: &str) -> Option<u64> {
    number(text.strip_prefix(stem)?.strip_prefix('-')?).map(u64::from)
}

fn number(digits: &str) -> Option<u32> {
    let is_plain = digits == "0" || !digits.starts_with(['0', '+']);
    digits.parse().ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_engine::Cluster;
    use berth_testing::object;

    /// The runs of pods, each with its first name and its number, and whether all of them come back.
    fn runs(pods: &[&str]) -> Vec<(String, u32)> {
        let cluster = Cluster::new();
        let compile = |text: &&str| cluster.compile_kept_pod(&object::pod(text)).unwrap();
        let pods: Vec<Pod> = pods.iter().map(compile).collect();
        let mut runs = Vec::<Run<'_>>::new();
        for pod in &pods {
            if !runs.last_mut().is_some_and(|run| run.extend(pod)) {
                runs.push(Run::of(pod));
            }
        }
        let runs = runs.iter().map(|run| RecordedPod {
            namespace: run.first().key().namespace.to_string(),
            name: run.first().key().name.to_string(),
            uid: run.first().uid().to_owned(),
            count: run.count(),
            ..RecordedPod::default()
        });
        let runs: Vec<RecordedPod> = runs.collect();
        let found: Vec<_> = runs.iter().cloned().flat_map(expand).collect();
        let names = |pod: &RecordedPod| (pod.name.clone(), pod.uid.clone(), pod.count);
        let expected = |pod: &Pod| (pod.key().name.to_string(), pod.uid().to_owned(), 0);
        assert_eq!(
            found.iter().map(names).collect::<Vec<_>>(),
            pods.iter().map(expected).collect::<Vec<_>>()
        );
        runs.into_iter().map(|run| (run.name, run.count)).collect()
    }

    #[test]
    fn replicas_are_one_run() {
        let check = |pods: &[&str], expected: &[(&str, u32)]| {
            let expected: Vec<_> =
                expected.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
            assert_eq!(runs(pods), expected, "{pods:?}");
        };
        check(&["w-0 uid=u-0", "w-1 uid=u-1", "w-2 uid=u-2"], &[("w-0", 3)]);
        check(&["w-9 uid=u-9", "w-10 uid=u-10"], &[("w-9", 2)]);
        check(&["w-0 uid=u-0", "w-2 uid=u-2"], &[("w-0", 0), ("w-2", 0)]);
        check(&["w-0 uid=u-0", "w-1 uid=v-1"], &[("w-0", 0), ("w-1", 0)]);
        check(&["w-0 uid=u-1", "w-1 uid=u-2"], &[("w-0", 0), ("w-1", 0)]);
        check(&["w-0 uid=u-0", "w-1 uid=u-1 cpu=1"], &[("w-0", 0), ("w-1", 0)]);
        check(&["w-00 uid=u-0", "w-1 uid=u-1"], &[("w-00", 0), ("w-1", 0)]);
        check(&["w-0 uid=u-0", "w-01 uid=u-1"], &[("w-0", 0), ("w-01", 0)]);
        check(&["w uid=u", "w-1 uid=u-1"], &[("w", 0), ("w-1", 0)]);
        let last = "w-4294967295 uid=u-4294967295";
        check(
            &[last, "w-4294967296 uid=u-4294967296"],
            &[("w-4294967295", 0), ("w-4294967296", 0)],
        );
        check(&["w-0 uid=u-0 namespace=a", "w-1 uid=u-1 namespace=b"], &[("w-0", 0), ("w-1", 0)]);
    }
}
