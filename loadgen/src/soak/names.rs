//! Unique names: each actor numbers its own.

use berth_proto::core_v1::Pod;
use berth_synthetic::workload::renamed;
use rand::SeedableRng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

/// Generator of the names of one actor, `soak-ACTOR-NUMBER`.
#[derive(Debug)]
pub(super) struct Names {
    actor: &'static str,
    n: u64,
}

impl Names {
    pub(super) fn new(actor: &'static str) -> Names {
        Names { actor, n: 0 }
    }

    /// A name, also used as uid, that was never used before.
    pub(super) fn next(&mut self) -> String {
        self.n += 1;
        format!("soak-{}-{}", self.actor, self.n)
    }

    /// A random template under a new name.
    pub(super) fn pod(&mut self, templates: &[Pod], rng: &mut ChaCha8Rng) -> Pod {
        let name = self.next();
        templates.choose(rng).map_or_else(Pod::default, |template| renamed(template, &name))
    }
}

/// The random stream of one actor.
pub(super) fn random_stream(seed: u64, actor: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(1_000 + actor);
    rng
}
