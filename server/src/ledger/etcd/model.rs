//! The protocol of election, fencing and changes in doubt as a model, of which every state is looked at: two replicas, a
//! few changes, leases that end at any moment, transactions and answers that are late, lost or repeated, crashes.
//!
//! The model has what matters for safety only. The simulation beside it runs the state machine itself.

use std::collections::{BTreeMap, BTreeSet};

use stateright::{Checker as _, Model, Property};

/// Bounds of the model.
const N_REPLICAS: usize = 2;
const MAX_TERMS: u8 = 2;
const MAX_CHANGES: u8 = 2;
const MAX_TROUBLES: u8 = 2;

/// What the replicas rely on; a rule that is off is a fault that has to be found.
#[derive(Copy, Clone, Debug)]
struct Rules {
    term_is_compared: bool,
    head_is_compared: bool,
    /// A change in doubt is ruled out, or found, before the next one.
    doubt_is_settled: bool,
    /// A committer acknowledges when etcd has answered.
    answer_is_awaited: bool,
}

const ALL: Rules = Rules {
    term_is_compared: true,
    head_is_compared: true,
    doubt_is_settled: true,
    answer_is_awaited: true,
};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct World {
    /// etcd.
    revision: u8,
    committer: Option<(usize, u8)>,
    head: Head,
    log: Vec<Line>,
    /// The rest.
    replicas: [Replica; N_REPLICAS],
    wire: BTreeSet<Sent>,
    answers: BTreeSet<Answered>,
    n_terms: u8,
    n_changes: u8,
    n_troubles: u8,
    /// Changes that callers were told of, with their numbers.
    acknowledged: BTreeMap<u8, u8>,
    /// Changes that a committer takes for never happening.
    ruled_out: BTreeSet<u8>,
}

/// The head, and the revision at which it was written.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Head {
    last: u8,
    term: u8,
    n_barriers: u8,
    written: u8,
}

/// A commit as etcd has it.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
struct Line {
    change: u8,
    number: u8,
    term: u8,
    /// The term that was the elected one at that moment.
    elected: Option<u8>,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
enum Replica {
    #[default]
    Idle,
    Elected {
        term: u8,
    },
    Committing {
        term: u8,
        known: Head,
        doing: Doing,
    },
}

#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
enum Doing {
    Nothing,
    Batch(u8),
    Barrier { doubtful: Option<u8> },
}

/// A transaction on its way to etcd.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Sent {
    from: usize,
    /// The head that is compared, by its revision.
    compared: u8,
    head: Head,
    /// The change that is written, unless this is a barrier.
    change: Option<u8>,
}

/// An answer on its way back.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Answered {
    sent: Sent,
    outcome: Outcome,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Outcome {
    Written(u8),
    Refused { elected: Option<u8>, head: Head },
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Step {
    Elect(usize),
    LeaseEnds,
    List(usize),
    Begin(usize),
    CarryOut(Sent),
    /// The same, and it is carried out once more later.
    CarryOutTwice(Sent),
    Hear(Answered),
    GiveUpWaiting(usize),
    Crash(usize),
}

impl Model for Rules {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::default()]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        let is_trouble_left = world.n_troubles < MAX_TROUBLES;
        for (n, replica) in world.replicas.iter().enumerate() {
            match replica {
                Replica::Idle if world.committer.is_none() && world.n_terms < MAX_TERMS => {
                    steps.push(Step::Elect(n));
                }
                Replica::Idle => {}
                Replica::Elected { .. } => steps.push(Step::List(n)),
                Replica::Committing { doing: Doing::Nothing, .. } => {
                    if world.n_changes < MAX_CHANGES {
                        steps.push(Step::Begin(n));
                    }
                }
                Replica::Committing { .. } if is_trouble_left => steps.push(Step::GiveUpWaiting(n)),
                Replica::Committing { .. } => {}
            }
            if *replica != Replica::Idle && is_trouble_left {
                steps.push(Step::Crash(n));
            }
        }
        if world.committer.is_some() && world.n_terms < MAX_TERMS {
            steps.push(Step::LeaseEnds);
        }
        for sent in &world.wire {
            steps.push(Step::CarryOut(*sent));
            if is_trouble_left {
                steps.push(Step::CarryOutTwice(*sent));
            }
        }
        steps.extend(world.answers.iter().map(|answered| Step::Hear(*answered)));
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        match step {
            Step::Elect(n) => {
                next.revision += 1;
                next.n_terms += 1;
                next.committer = Some((n, next.revision));
                next.replicas[n] = Replica::Elected { term: next.revision };
            }
            Step::LeaseEnds => {
                next.revision += 1;
                next.committer = None;
            }
            Step::List(n) => {
                let Replica::Elected { term } = next.replicas[n] else { return None };
                let known = Head { term, n_barriers: 0, ..next.head };
                next.send_barrier(n, known, None);
            }
            Step::Begin(n) => self.begin(&mut next, n),
            Step::CarryOut(sent) => {
                next.wire.remove(&sent);
                self.carry_out(&mut next, sent);
            }
            Step::CarryOutTwice(sent) => {
                next.n_troubles += 1;
                self.carry_out(&mut next, sent);
            }
            Step::Hear(answered) => {
                next.answers.remove(&answered);
                next.hear(answered);
            }
            Step::GiveUpWaiting(n) => {
                next.n_troubles += 1;
                self.give_up_waiting(&mut next, n);
            }
            Step::Crash(n) => {
                next.n_troubles += 1;
                next.replicas[n] = Replica::Idle;
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Rules>> {
        vec![
            Property::always("what is acknowledged stays", |_, world: &World| {
                let is_there = |(change, number): (&u8, &u8)| {
                    let mut lines = world.log.iter();
                    lines.any(|line| (line.change, line.number) == (*change, *number))
                };
                world.acknowledged.iter().all(is_there)
            }),
            Property::always(
                "a number is given once, a change is made once",
                |_, world: &World| {
                    let numbers: BTreeSet<u8> = world.log.iter().map(|line| line.number).collect();
                    let changes: BTreeSet<u8> = world.log.iter().map(|line| line.change).collect();
                    (numbers.len(), changes.len()) == (world.log.len(), world.log.len())
                },
            ),
            Property::always("only the elected term writes", |_, world: &World| {
                world.log.iter().all(|line| line.elected == Some(line.term))
            }),
            Property::always("what is ruled out never happens", |_, world: &World| {
                world.log.iter().all(|line| !world.ruled_out.contains(&line.change))
            }),
            Property::sometimes("a second term goes on after the first", |_, world: &World| {
                world.log.first().zip(world.log.last()).is_some_and(|(a, b)| a.term < b.term)
            }),
            Property::sometimes("a change in doubt has happened", |_, world: &World| {
                world.log.iter().any(|line| !world.acknowledged.contains_key(&line.change))
                    && world.n_changes as usize > world.log.len()
            }),
            Property::sometimes("a change in doubt is ruled out", |_, world: &World| {
                !world.ruled_out.is_empty()
            }),
        ]
    }
}

impl Rules {
    fn begin(self, next: &mut World, n: usize) {
        let Replica::Committing { term, known, .. } = next.replicas[n] else { return };
        next.n_changes += 1;
        let change = next.n_changes;
        let head = Head { last: known.last + 1, term, written: 0, ..known };
        if !self.answer_is_awaited {
            next.acknowledged.insert(change, head.last);
        }
        let doing = Doing::Batch(change);
        next.replicas[n] = Replica::Committing { term, known, doing };
        next.wire.insert(Sent { from: n, compared: known.written, head, change: Some(change) });
    }

    fn carry_out(self, next: &mut World, sent: Sent) {
        let elected = next.committer.map(|(_, term)| term);
        let term_holds = !self.term_is_compared || elected == Some(sent.head.term);
        let head_holds = !self.head_is_compared || next.head.written == sent.compared;
        let outcome = if term_holds && head_holds {
            next.revision += 1;
            next.head = Head { written: next.revision, ..sent.head };
            if let Some(change) = sent.change {
                let (number, term) = (sent.head.last, sent.head.term);
                next.log.push(Line { change, number, term, elected });
            }
            Outcome::Written(next.revision)
        } else {
            Outcome::Refused { elected, head: next.head }
        };
        next.answers.insert(Answered { sent, outcome });
    }

    fn give_up_waiting(self, next: &mut World, n: usize) {
        let Replica::Committing { term, known, doing } = next.replicas[n] else { return };
        match doing {
            Doing::Nothing => {}
            Doing::Batch(change) if self.doubt_is_settled => {
                next.send_barrier(n, known, Some(change));
            }
            Doing::Batch(change) => {
                next.ruled_out.insert(change);
                let doing = Doing::Nothing;
                next.replicas[n] = Replica::Committing { term, known, doing };
            }
            Doing::Barrier { doubtful } => next.send_barrier(n, known, doubtful),
        }
    }
}

impl World {
    fn send_barrier(&mut self, n: usize, known: Head, doubtful: Option<u8>) {
        let doing = Doing::Barrier { doubtful };
        self.replicas[n] = Replica::Committing { term: known.term, known, doing };
        let head = Head { n_barriers: known.n_barriers + 1, written: 0, ..known };
        self.wire.insert(Sent { from: n, compared: known.written, head, change: None });
    }

    /// A replica hears an answer, if it still waits for it.
    fn hear(&mut self, Answered { sent, outcome }: Answered) {
        let Replica::Committing { term, known, doing } = self.replicas[sent.from] else { return };
        let awaited = match doing {
            Doing::Nothing => return,
            Doing::Batch(change) => sent.change == Some(change),
            Doing::Barrier { .. } => {
                sent.change.is_none() && sent.head.n_barriers == known.n_barriers + 1
            }
        };
        if !awaited || sent.head.term != term {
            return;
        }
        let doubtful = match doing {
            Doing::Barrier { doubtful } => doubtful,
            _ => None,
        };
        let known = match outcome {
            Outcome::Written(written) => {
                match sent.change {
                    Some(change) => drop(self.acknowledged.insert(change, sent.head.last)),
                    None => self.ruled_out.extend(doubtful),
                }
                Head { written, ..sent.head }
            }
            Outcome::Refused { elected, head } => {
                let barrier = Head { n_barriers: known.n_barriers + 1, ..known };
                let is_own = |own: Head| Head { written: 0, ..head } == Head { written: 0, ..own };
                let batch = Head { last: known.last + 1, ..known };
                if elected != Some(term) {
                    self.replicas[sent.from] = Replica::Idle;
                    return;
                } else if doubtful.is_some() && is_own(batch) {
                    head
                } else if is_own(barrier) {
                    self.ruled_out.extend(doubtful);
                    head
                } else {
                    self.replicas[sent.from] = Replica::Idle;
                    return;
                }
            }
        };
        self.replicas[sent.from] = Replica::Committing { term, known, doing: Doing::Nothing };
    }
}

#[test]
fn no_state_violates_a_property() {
    let checked = ALL.checker().threads(2).spawn_bfs().join();
    println!("{} states", checked.unique_state_count());
    checked.assert_properties();
    assert!(checked.unique_state_count() > 100_000);
}

#[test]
fn each_rule_that_is_off_is_found() {
    for (rules, property) in [
        (Rules { term_is_compared: false, ..ALL }, "only the elected term writes"),
        (Rules { head_is_compared: false, ..ALL }, "what is ruled out never happens"),
        (Rules { head_is_compared: false, ..ALL }, "a number is given once, a change is made once"),
        (Rules { doubt_is_settled: false, ..ALL }, "what is ruled out never happens"),
        (Rules { answer_is_awaited: false, ..ALL }, "what is acknowledged stays"),
    ] {
        let checked = rules.checker().threads(2).spawn_bfs().join();
        assert!(checked.discovery(property).is_some(), "{rules:?}: {property}");
    }
}
