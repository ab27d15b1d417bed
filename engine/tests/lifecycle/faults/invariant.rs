//! Invariants that hold after every step (L-TEST-7 to L-TEST-10). They read the real state of the machines.

use std::collections::BTreeSet;

use berth_engine::lifecycle::attachment::Holder;
use berth_engine::lifecycle::phase::check_phase_transition;
use berth_proto::berth_v1::CheckPhaseTransitionRequest;
use berth_proto::core_v1::Pod;

use super::store::{PETS, Record, Store, VOLUMES, name_of, phase_of};
use super::world::{Step, World};

pub(super) fn check(world: &World, before: &Store, n_records: usize, step: &Step) {
    let after = &world.server.store;
    let records = &world.server.journal[n_records..];
    let found = identities(world)
        .and_then(|()| volumes(world))
        .and_then(|()| only_forward(before, after, world.now))
        .and_then(|()| entitlements(world, before, records));
    if let Err(violation) = found {
        panic!("{violation}\nafter {step:?}\n{records:?}");
    }
}

/// Returns the uids and machines of the running processes of this name that can still affect others.
fn live_uids<'a>(world: &'a World, name: &'a str) -> Vec<(&'a str, &'a str)> {
    let live = world.machines.iter().filter(|machine| machine.is_live());
    live.flat_map(|machine| {
        let running = machine
            .processes
            .iter()
            .filter(|(_, process)| process.is_running && process.pod_name == name);
        running.map(|(uid, _)| (uid.as_str(), machine.name.as_str()))
    })
    .collect()
}

/// L-TEST-7: a name has one holder, one object and one live process, which is the holder's.
fn identities(world: &World) -> Result<(), String> {
    let store = &world.server.store;
    for (name, _) in PETS {
        let lock = store.locks.get(name).cloned().unwrap_or_default();
        let named = store.pods.iter().filter(|(_, pod)| name_of(pod) == name);
        let uids: Vec<&String> = named.map(|(uid, _)| uid).collect();
        if uids.len() > 1 || uids.iter().any(|uid| Some(*uid) != lock.holder_uid.as_ref()) {
            return Err(format!("`{name}` is the name of {uids:?}, its lock says {lock:?}"));
        }
        let running = live_uids(world, name);
        let is_foreign = |(uid, _): &(&str, &str)| lock.holder_uid.as_deref() != Some(*uid);
        if !lock.released_unsafely && (running.len() > 1 || running.iter().any(is_foreign)) {
            return Err(format!("`{name}` runs as {running:?}, its lock says {lock:?}"));
        }
    }
    Ok(())
}

/// L-TEST-8 for the records and for the real mounts, even with forced deletions.
fn volumes(world: &World) -> Result<(), String> {
    for (volume, mode) in VOLUMES {
        let holders = world.server.store.volumes[volume].holders();
        let held = holders.iter().map(|holder| (&*holder.node, &*holder.pod_uid));
        let reaching = world.machines.iter().filter(|machine| machine.reaches_storage());
        let mounted = reaching.flat_map(|machine| {
            let mounting =
                machine.processes.iter().filter(|(_, process)| process.mounts.contains(volume));
            mounting.map(|(uid, _)| (&*machine.name, uid.as_str()))
        });
        for (what, users) in
            [("held", held.collect::<BTreeSet<_>>()), ("mounted", mounted.collect())]
        {
            let nodes: BTreeSet<&str> = users.iter().map(|user| user.0).collect();
            if nodes.len() > 1 || (mode == "ReadWriteOncePod" && users.len() > 1) {
                return Err(format!("`{volume}`, {mode}, is {what} by {users:?}"));
            }
        }
    }
    Ok(())
}

/// L-TEST-9 for pods that exist before and after the step.
fn only_forward(before: &Store, after: &Store, now: i64) -> Result<(), String> {
    for (uid, new) in &after.pods {
        let Some(old) = before.pods.get(uid) else { continue };
        let (from, to) = (phase_of(old).to_owned(), phase_of(new).to_owned());
        let question = CheckPhaseTransitionRequest { from: from.clone(), to: to.clone() };
        if !check_phase_transition(&question).unwrap().legal || rank(&to) < rank(&from) {
            return Err(format!("`{uid}` goes from {from} to {to}"));
        }
        if grows(mark_of(old), mark_of(new), now) {
            return Err(format!(
                "the period of `{uid}` grows: {:?}, {:?}",
                mark_of(old),
                mark_of(new)
            ));
        }
        if restarts_of(new) < restarts_of(old) {
            return Err(format!("the restart count of `{uid}` falls"));
        }
    }
    Ok(())
}

fn rank(phase: &str) -> usize {
    ["Pending", "Running", "Succeeded Failed"].iter().position(|of| of.contains(phase)).unwrap()
}

/// Returns the time at which the pod is to be removed, and the grace period.
fn mark_of(pod: &Pod) -> (Option<i64>, Option<i64>) {
    let metadata = pod.metadata.as_ref().unwrap();
    let timestamp = metadata.deletion_timestamp.and_then(|time| time.unix_seconds());
    (timestamp, metadata.deletion_grace_period_seconds)
}

/// Whether a deletion mark is removed, its period grows, or its end moves to a later time than before and now
/// (L-TERM-3).
fn grows(old: (Option<i64>, Option<i64>), new: (Option<i64>, Option<i64>), now: i64) -> bool {
    match (old, new) {
        ((None, _), _) => false,
        ((Some(_), _), (None, _)) => true,
        ((Some(at), period), (Some(new_at), new_period)) => {
            new_at > at.max(now) || new_period > period
        }
    }
}

fn restarts_of(pod: &Pod) -> i32 {
    let statuses = &pod.status.as_ref().unwrap().container_statuses;
    statuses.first().map_or(0, |status| status.restart_count)
}

/// L-TEST-10: every removal and release is recorded with an entitlement, whose conditions were true.
fn entitlements(world: &World, before: &Store, records: &[Record]) -> Result<(), String> {
    let after = &world.server.store;
    for (uid, pod) in before.pods.iter().filter(|(uid, _)| !after.pods.contains_key(*uid)) {
        let Some(why) = removal(records, uid) else { return Err(format!("`{uid}` is gone")) };
        let is_safe = SAFE.contains(&why);
        let is_live = live_uids(world, name_of(pod)).iter().any(|live| live.0 == uid);
        let is_on_record = after.locks[name_of(pod)].released_unsafely;
        if is_live && is_safe {
            return Err(format!("`{uid}` was removed for {why}, but runs"));
        }
        if !is_safe && (why != "AcknowledgedForceDelete" || !is_on_record) {
            return Err(format!("`{uid}` was removed for {why}"));
        }
    }
    for (name, lock) in &before.locks {
        let Some(uid) = &lock.holder_uid else { continue };
        let is_on_record = after.locks[name].released_unsafely;
        let entitles =
            |why: &str| SAFE.contains(&why) || (why == "AcknowledgedForceDelete" && is_on_record);
        let is_released = records.iter().any(|record| {
            matches!(record, Record::Released { uid: released, entitlement }
                if released == uid && entitles(entitlement))
        });
        if after.locks[name].holder_uid.as_ref() != Some(uid) && !is_released {
            return Err(format!("`{uid}` has lost `{name}`"));
        }
    }
    for (volume, record) in &before.volumes {
        let kept = after.volumes[volume].holders();
        for holder in record.holders().iter().filter(|holder| !kept.contains(holder)) {
            let_go(world, volume, holder, records)?;
        }
    }
    Ok(())
}

/// Entitlements to a removal that imply that no process is left.
const SAFE: [&str; 6] = [
    "ProcessesConfirmedDead",
    "NeverBound",
    "TerminalPhase",
    "NodeObjectDeleted",
    "NodeOutOfService",
    "FenceConfirmed",
];

fn removal<'a>(records: &'a [Record], uid: &str) -> Option<&'a str> {
    records.iter().find_map(|record| match record {
        Record::Removed { uid: removed, entitlement } if removed == uid => Some(&**entitlement),
        _ => None,
    })
}

fn let_go(world: &World, volume: &str, holder: &Holder, records: &[Record]) -> Result<(), String> {
    const WHY: [&str; 4] = ["Detached", "FenceConfirmed", "NodeOutOfService", "NodeObjectDeleted"];
    let is_named = records.iter().any(|record| {
        matches!(record, Record::LetGo { volume: v, node, uid, entitlement }
            if v == volume && *node == holder.node && *uid == holder.pod_uid && WHY.contains(&&**entitlement))
    });
    let machine = world.machines.iter().find(|machine| machine.name == holder.node).unwrap();
    let process = machine.processes.get(&holder.pod_uid);
    let is_mounted = process.is_some_and(|process| process.mounts.contains(volume));
    if !is_named || (is_mounted && machine.reaches_storage()) {
        return Err(format!("{holder:?} has lost `{volume}`, mounted: {is_mounted}"));
    }
    Ok(())
}

/// Returns the name under which a record is counted.
pub(super) fn summary(record: &Record) -> String {
    match record {
        Record::Removed { entitlement, .. } => format!("removed, {entitlement}"),
        Record::Released { entitlement, .. } => format!("released, {entitlement}"),
        Record::LetGo { entitlement, .. } => format!("let go, {entitlement}"),
    }
}
