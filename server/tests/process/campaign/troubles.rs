//! Troubles: what happens to replicas, members of etcd and the lines between them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_testing::etcd::Etcd;
use berth_testing::ports::free_address;
use berth_testing::recorded::skip;
use tonic::transport::Channel;

use super::feeds::Feeds;
use crate::ledger::workload::Chance;
use crate::proxy::{Line, Proxy};
use crate::served::{Served, berth};

pub(crate) const N_REPLICAS: usize = 3;
pub(crate) const N_MEMBERS: usize = 3;
/// Longer than the lease, so that another replica commits meanwhile.
const LONG_STOP: Duration = Duration::from_millis(3_800);
/// Where Debian has libfaketime, if `BERTH_FAKETIME` does not say where it is.
const FAKETIME: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";
/// A quota that a member's database exceeds at once.
const SMALL_QUOTA: [&str; 2] = ["--quota-backend-bytes", "1000"];

/// What happens.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Trouble {
    ReplicaKilled,
    ReplicaEnded,
    ReplicaStopped,
    ReplicaStoppedLong,
    ReplicaCutOff,
    LineCut,
    LineSlow,
    ClockSet,
    MemberKilled,
    MemberStopped,
    MemberReplaced,
    MemberFull,
    Defragmented,
    FeedLate,
}

impl Trouble {
    pub(crate) const ALL: [Trouble; 14] = [
        Trouble::ReplicaKilled,
        Trouble::LineCut,
        Trouble::ReplicaStopped,
        Trouble::MemberStopped,
        Trouble::ReplicaEnded,
        Trouble::LineSlow,
        Trouble::MemberKilled,
        Trouble::ReplicaStoppedLong,
        Trouble::Defragmented,
        Trouble::ClockSet,
        Trouble::MemberReplaced,
        Trouble::ReplicaCutOff,
        Trouble::MemberFull,
        Trouble::FeedLate,
    ];

    /// How many times more often than the rarest.
    fn weight(self) -> u64 {
        match self {
            Trouble::LineCut | Trouble::LineSlow => 6,
            Trouble::ReplicaKilled
            | Trouble::ReplicaEnded
            | Trouble::ReplicaStopped
            | Trouble::FeedLate => 4,
            Trouble::ClockSet | Trouble::MemberKilled | Trouble::MemberStopped => 3,
            Trouble::Defragmented => 2,
            Trouble::ReplicaStoppedLong
            | Trouble::ReplicaCutOff
            | Trouble::MemberReplaced
            | Trouble::MemberFull => 1,
        }
    }

    /// Those that can be made here; the others are named as skipped.
    pub(crate) fn possible() -> Vec<Trouble> {
        let (has_clock, has_control) = (faketime().is_some(), Etcd::has_control());
        if !has_clock {
            skip("clocks that are set: there is no libfaketime");
        }
        if !has_control {
            skip("members of etcd that are replaced or full: there is no etcdctl on the path");
        }
        let is_possible = |trouble: &Trouble| match trouble {
            Trouble::ClockSet => has_clock,
            Trouble::MemberReplaced | Trouble::MemberFull | Trouble::Defragmented => has_control,
            _ => true,
        };
        Trouble::ALL.into_iter().filter(is_possible).collect()
    }

    /// One of these, by weight.
    pub(crate) fn any(possible: &[Trouble], chance: &mut Chance) -> Trouble {
        let mut left = chance.below(possible.iter().map(|it| it.weight()).sum());
        for &trouble in possible {
            match left.checked_sub(trouble.weight()) {
                Some(less) => left = less,
                None => return trouble,
            }
        }
        Trouble::LineCut
    }
}

fn faketime() -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os("BERTH_FAKETIME").unwrap_or(FAKETIME.into()));
    path.exists().then_some(path)
}

/// A replica on its lines.
struct Replica {
    served: Served,
    channel: Channel,
    to_etcd: Vec<Proxy>,
    from_others: Proxy,
    /// What libfaketime reads.
    clock: PathBuf,
}

/// Replicas, members, and all lines between them.
pub(crate) struct World {
    etcd: Etcd,
    replicas: Vec<Replica>,
    feeds: Arc<Feeds>,
    folder: PathBuf,
    n_started: usize,
}

impl World {
    /// Starts everything; `None` if the check has to be skipped.
    pub(crate) async fn start(folder: &Path, feeds: Arc<Feeds>) -> Option<World> {
        let etcd = Etcd::start(N_MEMBERS, &[])?;
        let (replicas, folder, n_started) = (Vec::new(), folder.to_owned(), 0);
        let mut world = World { etcd, replicas, feeds, folder, n_started };
        for _ in 0..N_REPLICAS {
            let replica = world.replica().await;
            world.replicas.push(replica);
        }
        Some(world)
    }

    pub(crate) fn channels(&self) -> Vec<Channel> {
        self.replicas.iter().map(|replica| replica.channel.clone()).collect()
    }

    async fn replica(&mut self) -> Replica {
        self.n_started += 1;
        let name = format!("r{}", self.n_started);
        let port = free_address();
        let (from_others, mut to_etcd) = (Proxy::to(port).await, Vec::new());
        for n in 0..N_MEMBERS {
            to_etcd.push(Proxy::to(self.etcd.client_address(n)).await);
        }
        let endpoints: Vec<String> =
            to_etcd.iter().map(|it| format!("http://{}", it.address)).collect();
        let clock = self.folder.join(format!("clock-{name}"));
        std::fs::write(&clock, "+0").unwrap();
        let mut command = berth();
        command
            .args(["serve", "--worker-threads", "2", "--http-address", "127.0.0.1:0"])
            .args(["--grpc-address", &port.to_string()])
            .args(["--etcd", &endpoints.join(",")])
            .args(["--replica-name", &name])
            .args(["--replica-address", &format!("http://{}", from_others.address)]);
        if let Some(faketime) = faketime() {
            command
                .env("LD_PRELOAD", faketime)
                .env("FAKETIME_TIMESTAMP_FILE", &clock)
                .env("FAKETIME_CACHE_DURATION", "1")
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        let served = tokio::task::block_in_place(|| Served::start(&mut command));
        let channel = Channel::from_shared(served.url.clone()).unwrap().connect_lazy();
        Replica { served, channel, to_etcd, from_others, clock }
    }

    /// Does it, and mends it; `chance` chooses to whom.
    pub(crate) async fn make(&mut self, trouble: Trouble, chance: &mut Chance) {
        let mut below = |n: usize| usize::try_from(chance.below(n as u64)).unwrap();
        let (at, member, times) = (below(N_REPLICAS), below(N_MEMBERS), below(10));
        let short = Duration::from_millis(100 * (times as u64 + 1));
        match trouble {
            Trouble::ReplicaKilled | Trouble::ReplicaEnded => {
                let new = self.replica().await;
                let old = std::mem::replace(&mut self.replicas[at], new);
                tokio::task::block_in_place(|| match trouble {
                    Trouble::ReplicaKilled => old.served.kill(),
                    _ => drop(old.served.stop()),
                });
            }
            Trouble::ReplicaStopped => self.stop(at, short).await,
            Trouble::ReplicaStoppedLong => self.stop(at, LONG_STOP).await,
            Trouble::ReplicaCutOff => {
                let lines = self.lines_of(at);
                lines.iter().for_each(|line| line.set(Line::Cut));
                tokio::time::sleep(LONG_STOP).await;
                self.lines_of(at).iter().for_each(|line| line.set(Line::Open));
            }
            Trouble::LineCut => self.line(at, below(N_MEMBERS + 1), Line::Cut, short).await,
            Trouble::LineSlow => {
                let line = Line::Slow(short / 20);
                self.line(at, below(N_MEMBERS + 1), line, 2 * short).await;
            }
            Trouble::FeedLate => {
                let late = Duration::from_millis(chance.below(3_000));
                self.feeds.set_late(at, late);
                tokio::time::sleep(2 * short).await;
                self.feeds.set_late(at, late / 10);
            }
            Trouble::ClockSet => {
                let offset = ["+0", "+3600", "-3600", "+86400", "-86400"][below(5)];
                std::fs::write(&self.replicas[at].clock, offset).unwrap();
                tokio::time::sleep(short).await;
            }
            Trouble::MemberKilled => {
                self.etcd.kill(member);
                tokio::time::sleep(short).await;
                tokio::task::block_in_place(|| self.etcd.restart(member));
            }
            Trouble::MemberStopped => {
                self.etcd.pause(member, true);
                tokio::time::sleep(2 * short).await;
                self.etcd.pause(member, false);
            }
            Trouble::MemberReplaced => {
                tokio::task::block_in_place(|| self.etcd.replace(member));
            }
            Trouble::MemberFull => self.fill(member, short).await,
            Trouble::Defragmented => {
                tokio::task::block_in_place(|| self.etcd.control_member(member, &["defrag"]));
            }
        }
    }

    async fn stop(&self, at: usize, time: Duration) {
        self.replicas[at].served.signal("-STOP");
        tokio::time::sleep(time).await;
        self.replicas[at].served.signal("-CONT");
    }

    fn lines_of(&self, at: usize) -> Vec<&Proxy> {
        let replica = &self.replicas[at];
        replica.to_etcd.iter().chain([&replica.from_others]).collect()
    }

    async fn line(&self, at: usize, n: usize, line: Line, time: Duration) {
        self.lines_of(at)[n].set(line);
        tokio::time::sleep(time).await;
        self.lines_of(at)[n].set(Line::Open);
    }

    /// A member's disk is full as far as etcd is concerned: it takes no more writes of anybody, until it is told that there
    /// is room again.
    async fn fill(&mut self, member: usize, time: Duration) {
        self.etcd.kill(member);
        self.etcd.set_flags(&SMALL_QUOTA);
        tokio::task::block_in_place(|| self.etcd.restart(member));
        tokio::time::sleep(time).await;
        self.etcd.kill(member);
        self.etcd.set_flags(&[]);
        tokio::task::block_in_place(|| {
            self.etcd.restart(member);
            let until = Instant::now() + crate::served::PATIENCE;
            while !self.etcd.control_member((member + 1) % N_MEMBERS, &["alarm", "disarm"]) {
                assert!(Instant::now() < until, "the alarm stays");
            }
        });
    }
}
