//! Recent: pods of requests that were compiled before. The pods of a workload differ in their names only, and to write
//! one down and look it up takes a fraction of compiling it.
//!
//! A pod is remembered when one like it comes for the second time, so that pods which are all different cost no more than
//! being written down.
//! A remembered pod, under its new name, equals what compiling would give: results do not depend on what is remembered.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use berth_proto::core_v1;
use dashmap::DashMap;
use rustc_hash::FxBuildHasher;

use crate::model::kept::{self, KeptPod, Source};
use crate::model::table::table_bytes;
use crate::model::{Model, ModelError, Pod};

/// Number of pods that are remembered at most, and of bytes that they take, about.
const MAX_PODS: usize = 1_024;
const MAX_BYTES: usize = 8 << 20;
/// Number of bytes of one of them at most: larger pods are compiled each time.
const MAX_POD_BYTES: usize = MAX_BYTES / 16;
/// Number of pods that are known to have come once.
const N_SEEN: usize = 4_096;

/// Compiled pods by what they were compiled from. Usable from any number of threads.
#[derive(Debug)]
pub(crate) struct RecentPods {
    known: DashMap<Nameless, Pod, FxBuildHasher>,
    /// Hashes of pods that came once, each in the place that it has.
    seen: Box<[AtomicU64]>,
    /// About as many bytes as the known pods take. Locked by whoever adds one.
    n_bytes: Mutex<usize>,
}

/// The encoding of a pod without its name and uid, and whether its object is kept.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Nameless {
    encoded: Vec<u8>,
    keeps_object: bool,
}

impl Nameless {
    fn of(pod: &core_v1::Pod, keeps_object: bool) -> Nameless {
        // The fields of a message, compared one by one, take several times as long: most are empty, and the processor
        // takes its time to compare no bytes at no address.
        Nameless { encoded: kept::encode_nameless(pod), keeps_object }
    }
}

impl Default for RecentPods {
    fn default() -> RecentPods {
        let seen = (0..N_SEEN).map(|_| AtomicU64::new(0)).collect();
        RecentPods { known: DashMap::default(), seen, n_bytes: Mutex::default() }
    }
}

impl RecentPods {
    /// Compiles the pod of a request, and keeps its object or not.
    pub(crate) fn compile(
        &self,
        pod: &core_v1::Pod,
        keeps_object: bool,
        model: &Model,
    ) -> Result<Pod, ModelError> {
        model.check_room()?;
        let nameless = Nameless::of(pod, keeps_object);
        if let Some(known) = self.get(&nameless) {
            return known.renamed(pod, model);
        }
        let mut compiled = Pod::compile(pod, model)?;
        if keeps_object {
            let kept = KeptPod::shared(&nameless.encoded, model.requested());
            compiled = compiled.keeping(Some(kept), Source::Request);
        }
        self.note(nameless, &compiled);
        Ok(compiled)
    }

    /// The pod that was compiled from the same object but for its name and uid, if one is remembered.
    fn get(&self, pod: &Nameless) -> Option<Pod> {
        Some(self.known.get(pod)?.clone())
    }

    /// Remembers a compiled pod, if one like it came before.
    fn note(&self, pod: Nameless, compiled: &Pod) {
        let hash = FxBuildHasher.hash_one(&pod);
        let place = usize::try_from(hash % N_SEEN as u64).unwrap_or(0);
        let last = self.seen.get(place).map(|seen| seen.swap(hash, Ordering::Relaxed));
        let n_bytes = table_bytes(pod.encoded.len());
        // A copy would lack the claims that are made for one pod.
        if last != Some(hash) || n_bytes > MAX_POD_BYTES || !compiled.is_copied_whole() {
            return;
        }
        let mut n_known_bytes = self.n_bytes.lock().unwrap_or_else(PoisonError::into_inner);
        if *n_known_bytes + n_bytes > MAX_BYTES || self.known.len() >= MAX_PODS {
            // All are forgotten: those that are still asked for are remembered again.
            self.known.clear();
            *n_known_bytes = 0;
        }
        if self.known.insert(pod, compiled.clone()).is_none() {
            *n_known_bytes += n_bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_testing::object;

    /// Checks that a third pod of a kind is remembered or not, and is in any case what would be compiled.
    fn check(texts: [&str; 3], is_remembered: bool) {
        for keeps_object in [false, true] {
            let (model, recent) = (Model::new(), RecentPods::default());
            let pods = texts.map(object::pod);
            let compile = |pod| recent.compile(pod, keeps_object, &model.lending()).unwrap();
            let compiled = [&pods[0], &pods[1], &pods[2]].map(compile);
            let third = Nameless::of(&pods[2], keeps_object);
            assert_eq!(recent.get(&third).is_some(), is_remembered, "{texts:?}");
            let fresh = model.lending();
            let kept = keeps_object.then(|| KeptPod::shared(&third.encoded, model.requested()));
            let expected =
                Pod::compile(&pods[2], &fresh).map(|pod| pod.keeping(kept, Source::Request));
            let facts = |pod: &Pod| format!("{:?}", pod.facts());
            assert_eq!(facts(&compiled[2]), facts(&expected.unwrap()), "{texts:?}");
        }
    }

    #[test]
    fn a_pod_that_differs_in_its_name_is_remembered() {
        check(["a uid=1 cpu=1", "b uid=2 cpu=1", "c uid=3 cpu=1"], true);
        check(["a uid=1 cpu=1 label:x=y", "b uid=2 cpu=1 label:x=y", "c cpu=1 label:x=y"], true);
    }

    #[test]
    fn a_pod_that_differs_in_more_is_compiled() {
        check(["a cpu=1", "b cpu=1", "c cpu=2"], false);
        check(["a cpu=1", "b cpu=1", "c cpu=1 namespace=other"], false);
        check(["a cpu=1 label:x=y", "b cpu=1 label:x=y", "c cpu=1 label:x=z"], false);
        check(["a cpu=1", "b cpu=2", "c cpu=3"], false);
    }

    #[test]
    fn names_are_checked_whether_remembered_or_not() {
        let (model, recent) = (Model::new(), RecentPods::default());
        for name in ["a", "b", "c"] {
            recent.compile(&object::pod(name), false, &model).unwrap();
        }
        let mut pod = object::pod("d");
        pod.metadata.as_mut().unwrap().name = String::new();
        let error = recent.compile(&pod, false, &model).unwrap_err();
        assert_eq!(error.field, "metadata.name");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (model, recent) = (Model::new(), RecentPods::default());
        for i in 0..3 * MAX_PODS {
            for name in ["a", "b"] {
                let pod = object::pod(&format!("{name} cpu={}m", i + 1));
                recent.compile(&pod, false, &model.lending()).unwrap();
            }
        }
        assert!((1..=MAX_PODS).contains(&recent.known.len()), "{}", recent.known.len());
        let bytes = |pod: &Nameless| table_bytes(pod.encoded.len());
        let n_bytes: usize = recent.known.iter().map(|known| bytes(known.key())).sum();
        assert_eq!(*recent.n_bytes.lock().unwrap(), n_bytes);
        assert!(n_bytes <= MAX_BYTES);
    }

    /// A large pod that comes twice takes nobody's place.
    #[test]
    fn a_large_pod_is_not_remembered() {
        let (model, recent) = (Model::new(), RecentPods::default());
        let mut large = object::pod("a");
        let annotations = &mut large.metadata.as_mut().unwrap().annotations;
        annotations.insert("k".to_owned(), "v".repeat(MAX_POD_BYTES / 8));
        for pod in [object::pod("b"), object::pod("c"), large.clone(), large] {
            recent.compile(&pod, false, &model).unwrap();
        }
        assert_eq!(recent.known.len(), 1);
    }
}
