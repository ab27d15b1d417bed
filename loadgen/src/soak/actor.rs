//! The actors of a soak, a file each, with their shares of the steps.

mod broken;
mod feed;
mod ledger;
mod place;
mod pods;
mod session;
mod simulate;
mod stream;

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::world::World;
use super::{period, run_actor};
use broken::BrokenCalls;
use feed::Feed;
use ledger::LedgerGrants;
use place::{Batch, Place};
use session::Session;
use simulate::Simulate;
use stream::Stream;

/// One caller that takes a step at a time. A step ends with the server's responses, so that no call is in flight
/// between two steps, except calls that were cut.
pub(super) trait Actor: Send + 'static {
    /// The actor's name, part of the names of its pods.
    fn name(&self) -> &'static str;

    /// Makes one call or a short sequence of calls.
    fn step(&mut self, world: &World) -> impl Future<Output = ()> + Send;
}

/// Starts all actors. Their shares of the steps add up to 1.
pub(super) fn spawn_all(
    world: &Arc<World>,
    stopping: &watch::Receiver<bool>,
) -> JoinSet<&'static str> {
    let mut tasks = JoinSet::new();
    let seed = world.spec.seed;
    // Limit of the pods that an actor keeps.
    let max_pods = |percent: usize| (world.spec.n_pods * percent / 100).max(1);
    spawn(&mut tasks, world, stopping, 0.25, Place::new(seed, max_pods(30)));
    spawn(&mut tasks, world, stopping, 0.10, Batch::new(seed, max_pods(15)));
    spawn(&mut tasks, world, stopping, 0.20, Stream::new(seed, max_pods(25)));
    spawn(&mut tasks, world, stopping, 0.15, Feed::new(seed, max_pods(20)));
    spawn(&mut tasks, world, stopping, 0.05, Session::new(seed, max_pods(10)));
    spawn(&mut tasks, world, stopping, 0.08, LedgerGrants::new(seed));
    spawn(&mut tasks, world, stopping, 0.07, Simulate::new(seed));
    spawn(&mut tasks, world, stopping, 0.10, BrokenCalls::new(seed));
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
    tasks.spawn(run_actor(world.clone(), actor, period, stopping.clone()));
}
