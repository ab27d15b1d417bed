//! Admission of pods: JSON of a pod, admitted in a cluster with classes, limit ranges and quotas.

use berth_engine::{AdmissionContext, admit_pod};
use berth_proto::core_v1::Pod;

use crate::work::bounded;
use crate::world::{self, World};

/// Limit of the memory that admission may allocate for each byte of a pod: an empty container is a few bytes of text,
/// gets a dozen defaults, and each is recorded with its path.
const BYTES_EACH: u64 = 32 << 10;

/// Admits a pod, and checks that admitting the result changes nothing, and that the result compiles or is refused with
/// its field.
pub fn run(data: &[u8]) {
    let Ok(pod) = serde_json::from_slice::<Pod>(data) else { return };
    world::within(|world| check(world, &pod, data.len()));
}

fn check(world: &World, pod: &Pod, n_bytes: usize) {
    let snapshot = world.cluster.snapshot();
    let n_replicas = u32::try_from(n_bytes % 3).expect("below 3");
    let context = AdmissionContext { snapshot: &snapshot, position: 7, n_replicas };
    let mut admitted = pod.clone();
    let result = bounded(n_bytes, BYTES_EACH, || admit_pod(&mut admitted, context));
    let changes = match result {
        Ok(changes) => changes,
        Err(error) => {
            assert!(!error.field.is_empty() && !error.reason.is_empty(), "{error:?}");
            assert!(error.field.len() <= 1_010 && error.reason.len() <= 1_010, "{error:?}");
            return;
        }
    };
    for change in &changes.filled {
        assert!(!change.field.is_empty() && !change.source.is_empty(), "{change:?}");
    }
    for warning in &changes.warnings {
        assert!(!warning.source.is_empty() && !warning.message.is_empty(), "{warning:?}");
    }
    assert_eq!(changes.filled.is_empty(), admitted == *pod, "{:?}", changes.filled);
    let mut again = admitted.clone();
    match admit_pod(&mut again, context) {
        Ok(second) => assert_eq!(second.filled, [], "{admitted:?}"),
        Err(error) => panic!("an admitted pod is refused: {error}: {admitted:?}"),
    }
    assert!(again == admitted, "{admitted:?} becomes {again:?}");
    drop(world.decide(&admitted));
}
