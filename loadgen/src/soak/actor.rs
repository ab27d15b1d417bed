//! Who does what: a file an actor, each with its share of the steps.

mod cut;
mod feed;
mod held;
mod keep;
mod place;
mod session;
mod simulate;
mod stream;

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::world::World;
use super::{churn, period};
use cut::Cut;
use feed::Feed;
use keep::Keep;
use place::{Batch, Place};
use session::Session;
use simulate::Simulate;
use stream::Stream;

/// One caller that takes a step at a time. A step ends with the server's answers: between two nothing is under way, but for
/// what was cut.
pub(super) trait Actor: Send + 'static {
    /// What it is called in the names of its pods.
    fn name(&self) -> &'static str;

    /// Does one thing.
    fn step(&mut self, world: &World) -> impl Future<Output = ()> + Send;
}

/// All of them; their shares of the steps add up to 1.
pub(super) fn spawn_all(
    world: &Arc<World>,
    stopping: &watch::Receiver<bool>,
) -> JoinSet<&'static str> {
    let mut tasks = JoinSet::new();
    let seed = world.spec.seed;
    // Of the pods that are held, by actor.
    let most = |percent: usize| (world.spec.n_pods * percent / 100).max(1);
    spawn(&mut tasks, world, stopping, 0.25, Place::new(seed, most(30)));
    spawn(&mut tasks, world, stopping, 0.10, Batch::new(seed, most(15)));
    spawn(&mut tasks, world, stopping, 0.20, Stream::new(seed, most(25)));
    spawn(&mut tasks, world, stopping, 0.15, Feed::new(seed, most(20)));
    spawn(&mut tasks, world, stopping, 0.05, Session::new(seed, most(10)));
    spawn(&mut tasks, world, stopping, 0.08, Keep::new(seed));
    spawn(&mut tasks, world, stopping, 0.07, Simulate::new(seed));
    spawn(&mut tasks, world, stopping, 0.10, Cut::new(seed));
    tasks
}

fn spawn(
    tasks: &mut JoinSet<&'static str>,
    world: &Arc<World>,
    stopping: &watch::Receiver<bool>,
    share: f64,
    actor: impl Actor,
) {
    let period = period(world.spec.rate, share);
    tasks.spawn(churn(world.clone(), actor, period, stopping.clone()));
}
