//! A ledger's journal, played again by rules that are as simple as can be, beside what its callers were answered. Whatever was
//! lost, made twice or made up shows as a contradiction.

use std::collections::BTreeMap;

use berth_proto::berth_v1::{LedgerRecord, VolumeGrant};

use crate::workload::{Answer, NAMESPACE, Request, modes};

/// Everything that the journal says.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    pub(crate) lines: BTreeMap<u64, LedgerRecord>,
    by_actor: BTreeMap<String, u64>,
    /// Who holds each name: uid and token.
    pub(crate) identities: BTreeMap<String, (String, u64)>,
    /// Who holds each volume, and how often that changed.
    pub(crate) volumes: BTreeMap<String, (u64, Vec<VolumeGrant>)>,
    /// How far the fence of each node is, and its token.
    fences: BTreeMap<String, (String, u64)>,
}

/// What a caller knows of its request.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) request: Request,
    /// `None`: no answer came, so that nothing is known.
    pub(crate) answer: Option<Answer>,
}

impl Replay {
    pub(crate) fn last(&self) -> u64 {
        self.lines.keys().next_back().copied().unwrap_or(0)
    }

    /// Plays the next line.
    pub(crate) fn play(&mut self, line: &LedgerRecord) {
        if let Some((last, _)) = self.lines.last_key_value() {
            assert_eq!(line.revision, last + 1, "a gap or a repeated revision: {line:?}");
        }
        assert!(line.time.is_some() && !line.actor.is_empty(), "{line:?}");
        let (kind, subject) = line.subject.split_once('/').unwrap();
        match kind {
            "identity" => self.play_identity(line, subject),
            "volume" => self.play_volume(line, subject),
            "fence" => self.play_fence(line, subject),
            _ => panic!("unknown subject: {line:?}"),
        }
        let is_end =
            matches!(&*line.outcome, "Released" | "ReleasedUnsafely" | "Detached" | "Broken");
        assert!(!is_end || !line.entitlement.is_empty(), "an end without entitlement: {line:?}");
        if line.entitlement == "FenceConfirmed" {
            self.play_entitlement(line);
        }
        assert_eq!(line.is_unsafe, line.outcome == "ReleasedUnsafely", "{line:?}");
        self.lines.insert(line.revision, line.clone());
        let twice = self.by_actor.insert(line.actor.clone(), line.revision);
        assert_eq!(twice, None, "one request made two changes: {line:?}");
    }

    fn play_identity(&mut self, line: &LedgerRecord, subject: &str) {
        let name = subject.strip_prefix(NAMESPACE).unwrap().trim_start_matches('/').to_owned();
        let holder = self.identities.get(&name).map(|(uid, _)| uid.clone());
        match &*line.outcome {
            "Granted" => {
                assert_eq!(holder, None, "two holders of a name: {line:?}");
                self.identities.insert(name, (line.pod_uid.clone(), line.revision));
            }
            "AlreadyHeld" => assert_eq!(holder.as_ref(), Some(&line.pod_uid), "{line:?}"),
            "Released" | "ReleasedUnsafely" => {
                assert_eq!(holder.as_ref(), Some(&line.pod_uid), "released by nobody: {line:?}");
                self.identities.remove(&name);
            }
            _ => panic!("unknown outcome: {line:?}"),
        }
    }

    fn play_volume(&mut self, line: &LedgerRecord, volume: &str) {
        let (version, holders) = self.volumes.entry(volume.to_owned()).or_default();
        *version += 1;
        let n_before = holders.len();
        let (node, pod_uid) = (line.node_name.clone(), line.pod_uid.clone());
        match &*line.outcome {
            "Attached" => {
                match modes(volume) {
                    "ReadWriteOncePod" => assert!(holders.is_empty(), "two pods: {line:?}"),
                    "ReadWriteOnce" => {
                        let others = holders.iter().filter(|holder| holder.node != node);
                        assert_eq!(others.count(), 0, "two nodes: {line:?}");
                    }
                    _ => {}
                }
                holders.push(VolumeGrant { node, pod_uid, token: line.revision });
            }
            "Detached" => {
                holders.retain(|holder| holder.node != node || holder.pod_uid != pod_uid);
                assert_eq!(holders.len() + 1, n_before, "detached by nobody: {line:?}");
            }
            "Broken" => {
                holders.retain(|holder| holder.node != node);
                assert!(holders.len() < n_before, "nothing was broken: {line:?}");
            }
            _ => panic!("unknown outcome: {line:?}"),
        }
    }

    fn play_fence(&mut self, line: &LedgerRecord, node: &str) {
        let before = self.fences.get(node).map_or("Recovered", |(state, _)| state);
        let follows = match &*line.outcome {
            "Fencing" => ["Recovered", "Detected"].contains(&before),
            "Fenced" | "Detected" => before == "Fencing",
            "AttachmentsBroken" => before == "Fenced",
            "Recovered" => ["Detected", "Fenced", "AttachmentsBroken"].contains(&before),
            _ => false,
        };
        assert!(follows, "after {before}: {line:?}");
        let token = match &*line.outcome {
            "Fencing" => line.revision,
            _ => self.fences[node].1,
        };
        self.fences.insert(node.to_owned(), (line.outcome.clone(), token));
    }

    /// A fence entitles while it stands, by its own token.
    fn play_entitlement(&mut self, line: &LedgerRecord) {
        let (state, token) = self.fences.get_mut(&line.node_name).unwrap();
        assert!(["Fenced", "AttachmentsBroken"].contains(&&**state), "{state}: {line:?}");
        assert_eq!(*token, line.fence_token, "{line:?}");
        if line.outcome == "Broken" {
            "AttachmentsBroken".clone_into(state);
        }
    }

    /// What was answered is what the journal says, once and for good. `floor` is the highest token that anyone had been told
    /// when the request was sent.
    pub(crate) fn check(&self, told: &Told, floor: u64) {
        let line = self.by_actor.get(told.request.actor()).map(|revision| &self.lines[revision]);
        let Some(answer) = &told.answer else { return };
        let (outcome, granted) = match answer {
            Answer::Acquire(answer) => {
                (&answer.outcome, (answer.outcome == "Granted").then_some(answer.token))
            }
            Answer::Event(answer) => (&answer.outcome, None),
            Answer::Attach(answer) => {
                (&answer.reason, (answer.reason == "Attached").then_some(answer.token))
            }
            Answer::Detach(answer) => (&answer.reason, None),
            Answer::Break(answer) => (&answer.reason, None),
            Answer::Fence(answer) => return self.check_fence(told, &answer.outcome, line),
        };
        let changes = ["Granted", "Released", "ReleasedUnsafely", "Attached", "Detached", "Broken"];
        match line {
            Some(line) => {
                assert_eq!(&line.outcome, outcome, "{told:?}");
                assert!(changes.contains(&&**outcome) || outcome == "AlreadyHeld", "{told:?}");
            }
            None => {
                assert!(!changes.contains(&&**outcome), "an acknowledged change is lost: {told:?}")
            }
        }
        let presented = match &told.request {
            Request::Event(request) => request.token,
            Request::Detach(request) => request.token,
            _ => 0,
        };
        if let Some(line) = line.filter(|_| presented != 0) {
            let grant = &self.lines[&presented];
            let (is, was) = ((&line.subject, &line.pod_uid), (&grant.subject, &grant.pod_uid));
            assert_eq!(is, was, "ended by the token of another grant: {told:?}");
        }
        if let Some(token) = granted {
            assert_eq!(Some(token), line.map(|line| line.revision), "{told:?}");
            assert!(token > floor, "a token did not grow beyond {floor}: {told:?}");
        }
        if let Answer::Acquire(answer) = answer
            && answer.outcome == "AlreadyHeld"
        {
            let Request::Acquire(request) = &told.request else { panic!("{told:?}") };
            let grant = &self.lines[&answer.token];
            assert_eq!((&*grant.outcome, &grant.pod_uid), ("Granted", &request.uid), "{told:?}");
        }
    }

    fn check_fence(&self, told: &Told, outcome: &str, line: Option<&LedgerRecord>) {
        let Request::Fence(request) = &told.request else { panic!("{told:?}") };
        assert!(outcome == "Ok" || line.is_none(), "a refusal changed something: {told:?}");
        if outcome == "Ok"
            && ["Decide", "FenceConfirmed", "FenceFailed"].contains(&&*request.r#type)
        {
            assert!(line.is_some(), "an acknowledged change is lost: {told:?}");
        }
    }
}
