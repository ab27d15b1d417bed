//! Takeover: leaders that end while pods keep coming.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use berth_fake_apiserver::cluster::{add_synthetic, synthetic_pod};
use berth_server::apiserver::lease::LeaseOptions;

use super::api::Api;
use super::instance::Instance;
use super::{PATIENCE, SCHEDULER, say};

const N_NODES: usize = 5_000;
const N_PODS: usize = 20_000;
/// Leaders that end, in turn by SIGKILL and by SIGTERM.
const N_TAKEOVERS: usize = 6;
/// Time between two pods that are created while leaders end.
const BETWEEN_PODS: Duration = Duration::from_millis(20);

/// The time from the end of a leader until the next one has bound the pods that kept coming meanwhile.
pub(crate) fn measure() -> anyhow::Result<()> {
    let api = Api::start()?;
    add_synthetic(api.server().store(), N_NODES, N_PODS, SCHEDULER)?;
    let start = |n: usize| {
        let lease = LeaseOptions { identity: format!("instance-{n}"), ..LeaseOptions::default() };
        Instance::start(api.server(), Some(lease))
    };
    let mut leader = start(0)?;
    api.bound(N_PODS)?;
    let mut n_created = N_PODS;
    for n in 0..N_TAKEOVERS {
        let next = start(n + 1)?;
        // Long enough that it knows the cluster and the Lease.
        std::thread::sleep(Duration::from_secs(8));
        if !leader.is_leading() || next.is_leading() {
            bail!("the Lease changed its holder by itself");
        }
        let is_killed = n % 2 == 0;
        let began = Instant::now();
        let end = std::thread::spawn(move || if is_killed { leader.kill() } else { leader.stop() });
        let create = |n: usize| api.server().store().create(synthetic_pod(n, SCHEDULER)).map(drop);
        while !next.is_leading() {
            if began.elapsed() > PATIENCE {
                bail!("nobody leads");
            }
            create(n_created)?;
            n_created += 1;
            std::thread::sleep(BETWEEN_PODS);
        }
        // One that the next one binds for certain; those that wait are bound before.
        create(n_created)?;
        n_created += 1;
        api.bound(n_created)?;
        let elapsed = began.elapsed().as_secs_f64();
        let signal = if is_killed { "SIGKILL" } else { "SIGTERM" };
        say(&format!(
            "takeover: {elapsed:.2} s from {signal} until the next one has bound all that wait"
        ))?;
        end.join().ok().context("the leader's end crashed")?;
        leader = next;
    }
    leader.kill();
    Ok(())
}
