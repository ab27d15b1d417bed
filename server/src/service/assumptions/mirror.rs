//! Mirror: the records of assumptions as this server has read them, and what a change of records means for pods. Plain
//! data.

use std::collections::BTreeMap;
use std::mem;
use std::time::Duration;

use berth_engine::PodKey;

use super::book::Book;
use super::record::{self, Nomination, Position, Standing, Stored, key_of};
use crate::ledger::{Key, LedgerError};

/// The records, without what only the restoring of their pods needs.
#[derive(Debug, Default)]
pub(super) struct Mirror {
    /// By the token of their first pod.
    records: BTreeMap<u64, Known>,
    /// Bodies whose states have not come.
    bodies: BTreeMap<u64, Vec<u8>>,
    nominations: BTreeMap<Key, PodKey>,
    position: Position,
}

#[derive(Debug)]
struct Known {
    pods: Vec<PodKey>,
    standings: Vec<Standing>,
}

/// What is to be done with pods, in this order.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    Add(Vec<Stored>),
    /// Pods with their tokens.
    End(Vec<(PodKey, u64)>),
    SetTtl {
        pod: PodKey,
        token: u64,
        ttl: Option<Duration>,
    },
    Nominate(Box<Nomination>),
    /// The pod has no nomination any more.
    Withdraw(PodKey),
}

/// Values of records; `None` for one that is gone.
pub(super) type Changes = Vec<(Key, Option<Vec<u8>>)>;

impl Mirror {
    /// Takes changes over, which are all those of some commits.
    ///
    /// # Errors
    /// [`LedgerError::Damaged`]. The mirror is of no use then.
    pub(super) fn apply(&mut self, changes: Changes) -> Result<Vec<Step>, LedgerError> {
        let (mut steps, mut others) = (Vec::new(), Vec::with_capacity(changes.len()));
        // A body may come behind its state.
        for (key, value) in changes {
            match (key.number_of_reservation(), value) {
                (Some(first), Some(body)) => drop(self.bodies.insert(first, body)),
                (Some(first), None) => drop(self.bodies.remove(&first)),
                (None, value) => others.push((key, value)),
            }
        }
        for (key, value) in others {
            if let Some(first) = key.number_of_reservation_state() {
                match value {
                    Some(state) => self.set_state(&key, first, &state, &mut steps)?,
                    None => self.remove(first, &mut steps),
                }
            } else if key.as_str().starts_with(Key::NOMINATIONS) {
                self.set_nomination(key, value, &mut steps)?;
            } else if key == Key::position() {
                let position = value.map(|value| record::decode_whole(&key, &value)).transpose()?;
                self.position = position.unwrap_or_default();
            }
        }
        Ok(steps)
    }

    fn set_state(
        &mut self,
        key: &Key,
        first: u64,
        state: &[u8],
        steps: &mut Vec<Step>,
    ) -> Result<(), LedgerError> {
        if let Some(known) = self.records.get_mut(&first) {
            let new = record::decode_state(key, known.pods.len(), state)?;
            let old = mem::replace(&mut known.standings, new.clone());
            let pods = known.pods.iter().zip(first..);
            for ((pod, token), (old, new)) in pods.zip(old.iter().zip(&new)) {
                if !old.has_ended && new.has_ended {
                    end(pod, token, steps);
                } else if old.ttl != new.ttl && !new.has_ended {
                    steps.push(Step::SetTtl { pod: pod.clone(), token, ttl: new.ttl });
                }
            }
            return Ok(());
        }
        let body = self.bodies.remove(&first).ok_or_else(|| unpaired(key))?;
        let stored = record::decode(first, &body, state)?;
        let pods = stored.iter().map(|stored| stored.key.clone()).collect();
        let standings = stored.iter().map(|stored| stored.standing.clone()).collect();
        self.records.insert(first, Known { pods, standings });
        let mut stored: Vec<_> = stored.into_iter().filter(|it| !it.standing.has_ended).collect();
        match steps.last_mut() {
            Some(Step::Add(others)) => others.append(&mut stored),
            _ => steps.push(Step::Add(stored)),
        }
        Ok(())
    }

    fn remove(&mut self, first: u64, steps: &mut Vec<Step>) {
        let Some(Known { pods, standings }) = self.records.remove(&first) else { return };
        for ((pod, token), standing) in pods.iter().zip(first..).zip(standings) {
            if !standing.has_ended {
                end(pod, token, steps);
            }
        }
    }

    fn set_nomination(
        &mut self,
        key: Key,
        value: Option<Vec<u8>>,
        steps: &mut Vec<Step>,
    ) -> Result<(), LedgerError> {
        match value {
            Some(value) => {
                let nomination: Nomination = record::decode_whole(&key, &value)?;
                let pod = key_of(&nomination.object.clone().unwrap_or_default());
                self.nominations.insert(key, pod);
                steps.push(Step::Nominate(Box::new(nomination)));
            }
            None => steps.extend(self.nominations.remove(&key).map(Step::Withdraw)),
        }
        Ok(())
    }

    /// What the committer knew that wrote last.
    pub(super) fn position(&self) -> &Position {
        &self.position
    }

    /// The pods that are nominated.
    pub(super) fn nominated(&self) -> impl Iterator<Item = &PodKey> {
        self.nominations.values()
    }

    /// The pods that are reserved, with their tokens and times to live.
    pub(super) fn reserved(&self) -> impl Iterator<Item = (u64, &PodKey, Option<Duration>)> {
        let of = |(&first, known)| (first..).zip(pairs(known));
        let pods = self.records.iter().flat_map(of);
        let reserved = pods.filter(|(_, (_, standing))| !standing.has_ended);
        reserved.map(|(token, (pod, standing))| (token, pod, standing.ttl))
    }

    /// Greater than every token that was told.
    pub(super) fn next_token(&self) -> u64 {
        let last = self.records.last_key_value();
        let after = last.map_or(0, |(first, known)| first + known.pods.len() as u64);
        after.max(self.position.next_token)
    }

    /// What a keeper has to know to go on.
    pub(super) fn into_book(self) -> Book {
        let mut book = Book::default();
        for (first, known) in self.records {
            book.adopt(first, known.standings);
        }
        self.nominations.into_keys().for_each(|key| book.adopt_nomination(key));
        // Whoever wrote them has lost its term before their states.
        self.bodies.into_keys().for_each(|first| book.remove_body(first));
        book
    }
}

fn pairs(known: &Known) -> impl Iterator<Item = (&PodKey, &Standing)> {
    known.pods.iter().zip(&known.standings)
}

fn end(pod: &PodKey, token: u64, steps: &mut Vec<Step>) {
    match steps.last_mut() {
        Some(Step::End(pods)) => pods.push((pod.clone(), token)),
        _ => steps.push(Step::End(vec![(pod.clone(), token)])),
    }
}

fn unpaired(key: &Key) -> LedgerError {
    let reason = format!("`{}` is one half of a record, and the other is missing", key.as_str());
    LedgerError::Damaged { reason }
}

#[cfg(test)]
mod tests {
    use berth_proto::{core_v1, meta_v1};
    use prost::Message as _;

    use super::super::record::tests::{body, state};
    use super::*;

    fn key(i: usize) -> PodKey {
        PodKey::new("default", &format!("p{i}"))
    }

    fn is_add(step: &Step, tokens: &[u64]) -> bool {
        let Step::Add(stored) = step else { return false };
        stored.iter().map(|stored| stored.token).eq(tokens.iter().copied())
    }

    #[test]
    fn a_record_is_there_with_its_state_wherever_its_body_comes() {
        let mut mirror = Mirror::default();
        let (first, second) = (Key::reservation(100), Key::reservation_state(100));
        let early = vec![(first.clone(), Some(body(&["p0", "p1"])))];
        assert_eq!(mirror.apply(early).unwrap(), []);
        assert_eq!(mirror.reserved().next(), None);
        let steps = mirror.apply(vec![(second, Some(state(&[None, Some(5)])))]).unwrap();
        assert!(steps.len() == 1 && is_add(&steps[0], &[100, 101]), "{steps:?}");
        // In the order of the keys the state is first.
        let both = vec![
            (Key::reservation_state(200), Some(state(&[None]))),
            (Key::reservation(200), Some(body(&["p2"]))),
        ];
        assert!(is_add(&mirror.apply(both).unwrap()[0], &[200]));
        assert_eq!(mirror.reserved().last(), Some((200, &key(2), None)));
        let alone = vec![(Key::reservation_state(300), Some(state(&[None])))];
        assert!(matches!(mirror.apply(alone), Err(LedgerError::Damaged { .. })));
    }

    #[test]
    fn ends_and_times_of_single_pods_are_told() {
        let mut mirror = Mirror::default();
        let add = vec![
            (Key::reservation(100), Some(body(&["p0", "p1", "p2"]))),
            (Key::reservation_state(100), Some(state(&[None, None, None]))),
        ];
        mirror.apply(add).unwrap();
        let ended = record::encode(&[
            Standing { has_ended: true, ttl: None },
            Standing { has_ended: false, ttl: Some(Duration::from_secs(9)) },
            Standing::default(),
        ]);
        let steps = mirror.apply(vec![(Key::reservation_state(100), Some(ended))]).unwrap();
        let ttl = Some(Duration::from_secs(9));
        let expected =
            [Step::End(vec![(key(0), 100)]), Step::SetTtl { pod: key(1), token: 101, ttl }];
        assert_eq!(steps, expected);
        let gone = vec![(Key::reservation_state(100), None), (Key::reservation(100), None)];
        let steps = mirror.apply(gone).unwrap();
        assert_eq!(steps, [Step::End(vec![(key(1), 101), (key(2), 102)])]);
        assert_eq!(mirror.reserved().next(), None);
    }

    #[test]
    fn nominations_and_the_position_are_read() {
        let mut mirror = Mirror::default();
        let metadata =
            meta_v1::ObjectMeta { name: "p0".to_owned(), ..meta_v1::ObjectMeta::default() };
        let object = core_v1::Pod { metadata: Some(metadata), ..core_v1::Pod::default() };
        let nomination = Nomination { object: Some(object), node: "n".to_owned() };
        let position = Position { next_token: 7, versions: [("Pod".to_owned(), 3)].into() };
        let changes = vec![
            (Key::nomination("default", "p0"), Some(nomination.encode_to_vec())),
            (Key::position(), Some(position.encode_to_vec())),
            (Key::fence("n"), Some(b"not ours".to_vec())),
        ];
        assert_eq!(mirror.apply(changes).unwrap(), [Step::Nominate(Box::new(nomination))]);
        assert_eq!(mirror.position(), &position);
        assert!(mirror.nominated().eq([&key(0)]));
        let gone = vec![(Key::nomination("default", "p0"), None)];
        assert_eq!(mirror.apply(gone.clone()).unwrap(), [Step::Withdraw(key(0))]);
        assert_eq!(mirror.apply(gone).unwrap(), []);
    }
}
