//! Names that were never used before: each actor counts its own.

use berth_proto::core_v1::Pod;
use berth_synthetic::workload::renamed;
use rand::SeedableRng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

/// Names that begin with an actor's own.
#[derive(Debug)]
pub(super) struct Names {
    actor: &'static str,
    n: u64,
}

impl Names {
    pub(super) fn of(actor: &'static str) -> Names {
        Names { actor, n: 0 }
    }

    /// A name and uid that nobody has had.
    pub(super) fn next(&mut self) -> String {
        self.n += 1;
        format!("soak-{}-{}", self.actor, self.n)
    }

    /// One of the templates under a new name.
    pub(super) fn pod(&mut self, templates: &[Pod], rng: &mut ChaCha8Rng) -> Pod {
        let name = self.next();
        templates.choose(rng).map_or_else(Pod::default, |template| renamed(template, &name))
    }
}

/// Random numbers of one actor: same seed, other stream.
pub(super) fn stream(seed: u64, actor: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(1_000 + actor);
    rng
}
