//! Replicas, their clients, etcd, the network and the clocks in one deterministic process: what happens follows from a
//! seed. Requests and answers are lost, late, or carried out twice; replicas crash, stop and go on; clocks run at
//! different speeds.
//!
//! What has to hold whatever happens: a committer of an old term writes nothing; each revision is given once; every
//! acknowledged change is in the journal at its revision; the journal has no gap, and the records are what its lines
//! make of them, each from the record that it expected.
//!
//! A [`Fault`] breaks the protocol on purpose, so that it is known what the checks find.

mod store;
mod world;

use world::{Fault, World};

/// Runs seeds; returns the first violation with its seed.
fn violation(seeds: std::ops::Range<u64>, fault: Fault) -> Option<(u64, String)> {
    seeds.into_iter().find_map(|seed| World::new(seed, fault).run().err().map(|what| (seed, what)))
}

#[test]
fn a_thousand_lives_violate_nothing() {
    let n = std::env::var("BERTH_LEDGER_SEEDS").ok().map_or(1_000, |n| n.parse().unwrap());
    let found = violation(0..n, Fault::None);
    assert_eq!(found, None, "(seed, violation)");
}

#[test]
fn each_deliberate_fault_is_found() {
    for fault in [
        Fault::NoTermCompared,
        Fault::NoHeadCompared,
        Fault::AnsweredBeforeWritten,
        Fault::PredecessorNotRead,
        Fault::RevisionsBeginAnew,
        Fault::LeaseTimeOnly,
    ] {
        let found = violation(0..1_000, fault);
        let Some((seed, what)) = found else { panic!("{fault:?} was not found") };
        println!("{fault:?}: seed {seed}: {what}");
    }
}

#[test]
fn the_same_seed_is_the_same_life() {
    let life = |seed| {
        let mut world = World::new(seed, Fault::None);
        world.run().unwrap();
        world.digest()
    };
    assert_eq!(life(7), life(7));
    assert_ne!(life(7), life(8));
}

#[test]
fn a_life_has_what_it_is_about() {
    let mut total = world::Counts::default();
    for seed in 0..50 {
        let mut world = World::new(seed, Fault::None);
        world.run().unwrap();
        total.add(world.counts());
    }
    println!("{total:?}");
    assert!(total.n_acknowledged > 1_000 && total.n_conflicts > 100 && total.n_unavailable > 100);
    assert!(total.n_terms > 100 && total.n_crashes > 50 && total.n_repeated > 100);
    assert!(total.n_refused_by_etcd > 50);
}
