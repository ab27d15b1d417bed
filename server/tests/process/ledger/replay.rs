//! Replays a ledger's journal by simple rules and compares it with the responses that its clients got. A grant that was
//! lost, repeated or invented is a contradiction.

use std::collections::BTreeMap;

use berth_proto::berth_v1::{LedgerRecord, VolumeGrant};

use crate::ledger::workload::{NAMESPACE, Request, Response, modes};

/// The state that follows from the journal.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    pub(crate) lines: BTreeMap<u64, LedgerRecord>,
    by_actor: BTreeMap<String, u64>,
    /// Who holds each name: uid and token.
    pub(crate) identities: BTreeMap<String, (String, u64)>,
    /// Who holds each volume, and how often that changed.
    pub(crate) volumes: BTreeMap<String, (u64, Vec<VolumeGrant>)>,
    fences: BTreeMap<String, Fence>,
    /// The node of each holder of a name, and the revision since which it is known.
    known_nodes: BTreeMap<String, (String, u64)>,
}

/// State of a node's fence.
#[derive(Clone, Debug, Default)]
struct Fence {
    state: String,
    token: u64,
    scope: String,
    /// Token and scope of a further decision.
    renewal: Option<(u64, String)>,
}

impl Fence {
    fn is_confirmed(&self) -> bool {
        ["Fenced", "AttachmentsBroken"].contains(&&*self.state)
    }
}

/// A request and its response, as the client knows them.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) request: Request,
    /// `None` if no response came, so that the outcome is unknown.
    pub(crate) answer: Option<Response>,
}

impl Replay {
    pub(crate) fn last(&self) -> u64 {
        self.lines.keys().next_back().copied().unwrap_or(0)
    }

    /// Plays the next line.
    pub(crate) fn play(&mut self, line: &LedgerRecord) {
        if let Some((last, _)) = self.lines.last_key_value() {
            let is_next = line.previous_revision == *last && line.revision > *last;
            assert!(is_next, "a gap or a repeated revision: {line:?}");
        }
        assert!(
            line.time.is_some() && !line.actor.is_empty() && !line.claimed_actor.is_empty(),
            "{line:?}"
        );
        let (kind, subject) = line.subject.split_once('/').unwrap();
        if ["Granted", "Attached"].contains(&&*line.outcome) {
            let fence = self.fences.get(&line.node_name);
            let is_cut_off =
                fence.is_some_and(|fence| fence.is_confirmed() || fence.state == "Fencing");
            assert!(!is_cut_off, "a grant on a node that is cut off: {line:?}");
        }
        match kind {
            "identity" => self.play_identity(line, subject),
            "volume" => self.play_volume(line, subject),
            "fence" => self.play_fence(line, subject),
            _ => panic!("unknown subject: {line:?}"),
        }
        let is_end =
            matches!(&*line.outcome, "Released" | "ReleasedUnsafely" | "Detached" | "Broken");
        assert!(!is_end || !line.entitlement.is_empty(), "an end without entitlement: {line:?}");
        assert_eq!(line.fence_token != 0, !line.fence_scope.is_empty(), "{line:?}");
        if line.entitlement == "FenceConfirmed" {
            self.play_entitlement(line);
        }
        assert_eq!(line.is_unsafe, line.outcome == "ReleasedUnsafely", "{line:?}");
        self.lines.insert(line.revision, line.clone());
        let twice = self.by_actor.insert(line.claimed_actor.clone(), line.revision);
        assert_eq!(twice, None, "one request made two changes: {line:?}");
    }

    fn play_identity(&mut self, line: &LedgerRecord, subject: &str) {
        let name = subject.strip_prefix(NAMESPACE).unwrap().trim_start_matches('/').to_owned();
        let holder = self.identities.get(&name).map(|(uid, _)| uid.clone());
        match &*line.outcome {
            "Granted" => {
                assert_eq!(holder, None, "two holders of a name: {line:?}");
                self.known_nodes.insert(name.clone(), (line.node_name.clone(), line.revision));
                self.identities.insert(name, (line.pod_uid.clone(), line.revision));
            }
            "AlreadyHeld" => {
                assert_eq!(holder.as_ref(), Some(&line.pod_uid), "{line:?}");
                self.known_nodes.insert(name, (line.node_name.clone(), line.revision));
            }
            "Released" | "ReleasedUnsafely" => {
                assert_eq!(holder.as_ref(), Some(&line.pod_uid), "released by nobody: {line:?}");
                if line.entitlement == "FenceConfirmed" {
                    let (node, known) = &self.known_nodes[&name];
                    assert_eq!(*node, line.node_name, "{line:?}");
                    assert!(
                        *known < line.fence_token,
                        "known only after the decision, at {known}: {line:?}"
                    );
                }
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
                let by_fence = line.entitlement == "FenceConfirmed";
                for holder in holders.iter().filter(|holder| by_fence && holder.node == node) {
                    assert!(holder.token < line.fence_token, "came after the fence: {line:?}");
                }
                holders.retain(|holder| holder.node != node);
                assert!(holders.len() < n_before, "nothing was broken: {line:?}");
            }
            _ => panic!("unknown outcome: {line:?}"),
        }
    }

    fn play_fence(&mut self, line: &LedgerRecord, node: &str) {
        let fence = self.fences.entry(node.to_owned()).or_default();
        let before = fence.state.clone();
        let is_decision = line.outcome == "Fencing";
        assert_eq!(line.fence_token == line.revision, is_decision, "{line:?}");
        let of_renewal =
            fence.renewal.as_ref().is_some_and(|(token, _)| *token == line.fence_token);
        let known = if of_renewal {
            fence.renewal.as_ref().map(|(_, scope)| scope)
        } else {
            Some(&fence.scope)
        };
        assert!(is_decision || known == Some(&line.fence_scope), "{fence:?}: {line:?}");
        assert!(
            is_decision || of_renewal || fence.token == line.fence_token,
            "{fence:?}: {line:?}"
        );
        let follows = match &*line.outcome {
            "Fencing" if fence.is_confirmed() => {
                let further = (line.fence_token, line.fence_scope.clone());
                assert_eq!(fence.renewal.replace(further), None, "{line:?}");
                return;
            }
            "Fencing" => ["", "Recovered", "Detected"].contains(&&*before),
            "Detected" if of_renewal => {
                fence.renewal = None;
                return;
            }
            "Fenced" if of_renewal => fence.is_confirmed(),
            "Fenced" | "Detected" => before == "Fencing",
            "AttachmentsBroken" => !line.entitlement.is_empty(),
            "RemovePod" | "ReleaseIdentity" => return assert!(!line.entitlement.is_empty()),
            "Recovered" => before == "Detected" || fence.is_confirmed() && fence.renewal.is_none(),
            _ => false,
        };
        assert!(follows, "after {before}: {line:?}");
        let renewal = if line.outcome == "AttachmentsBroken" { fence.renewal.take() } else { None };
        *fence = Fence {
            state: line.outcome.clone(),
            token: line.fence_token,
            scope: line.fence_scope.clone(),
            renewal,
        };
    }

    /// Checks that a fence in force entitles, by its own token, to actions within its scope (L-FENCE-10).
    fn play_entitlement(&mut self, line: &LedgerRecord) {
        let fence = self.fences.get_mut(&line.node_name).unwrap();
        assert!(fence.is_confirmed(), "{fence:?}: {line:?}");
        assert_eq!((fence.token, &fence.scope), (line.fence_token, &line.fence_scope), "{line:?}");
        let scopes = match &*line.outcome {
            "Broken" | "AttachmentsBroken" => &["compute", "network+storage", "storage"][..],
            "Released" | "RemovePod" | "ReleaseIdentity" => &["compute", "network+storage"],
            _ => panic!("unknown: {line:?}"),
        };
        assert!(scopes.contains(&&*line.fence_scope), "out of scope: {line:?}");
        if line.outcome == "Broken" {
            "AttachmentsBroken".clone_into(&mut fence.state);
        }
    }

    /// Checks that a response agrees with the journal. `floor` is the highest token that any client had been given
    /// when the request was sent.
    pub(crate) fn check(&self, exchange: &Exchange, floor: u64) {
        let line =
            self.by_actor.get(exchange.request.actor()).map(|revision| &self.lines[revision]);
        let Some(answer) = &exchange.answer else { return };
        check_record(exchange, answer);
        let (outcome, granted) = match answer {
            Response::Acquire(answer) => {
                (&answer.outcome, (answer.outcome == "Granted").then_some(answer.token))
            }
            Response::Event(answer) => (&answer.outcome, None),
            Response::Attach(answer) => {
                (&answer.reason, (answer.reason == "Attached").then_some(answer.token))
            }
            Response::Detach(answer) => (&answer.reason, None),
            Response::Break(answer) => (&answer.reason, None),
            Response::Fence(answer) => return self.check_fence(exchange, &answer.outcome, line),
        };
        let changes = ["Granted", "Released", "ReleasedUnsafely", "Attached", "Detached", "Broken"];
        match line {
            Some(line) => {
                assert_eq!(&line.outcome, outcome, "{exchange:?}");
                assert!(changes.contains(&&**outcome) || outcome == "AlreadyHeld", "{exchange:?}");
            }
            None => {
                assert!(
                    !changes.contains(&&**outcome),
                    "an acknowledged change is lost: {exchange:?}"
                )
            }
        }
        let presented = match &exchange.request {
            Request::Event(request) => request.token,
            Request::Detach(request) => request.token,
            _ => 0,
        };
        if let Some(line) = line.filter(|_| presented != 0) {
            let grant = &self.lines[&presented];
            let (is, was) = ((&line.subject, &line.pod_uid), (&grant.subject, &grant.pod_uid));
            assert_eq!(is, was, "ended by the token of another grant: {exchange:?}");
        }
        if let Some(token) = granted {
            assert_eq!(Some(token), line.map(|line| line.revision), "{exchange:?}");
            assert!(token > floor, "a token did not grow beyond {floor}: {exchange:?}");
        }
        if let Response::Acquire(answer) = answer
            && answer.outcome == "AlreadyHeld"
        {
            let Request::Acquire(request) = &exchange.request else { panic!("{exchange:?}") };
            let grant = &self.lines[&answer.token];
            assert_eq!(
                (&*grant.outcome, &grant.pod_uid),
                ("Granted", &request.uid),
                "{exchange:?}"
            );
        }
    }

    fn check_fence(&self, exchange: &Exchange, outcome: &str, line: Option<&LedgerRecord>) {
        let Request::Fence(request) = &exchange.request else { panic!("{exchange:?}") };
        assert!(outcome == "Ok" || line.is_none(), "a refusal changed something: {exchange:?}");
        let is_recorded = !["FenceAccepted", "NodeReturned"].contains(&&*request.r#type);
        if outcome == "Ok" && is_recorded {
            assert!(line.is_some(), "an acknowledged change is lost: {exchange:?}");
        }
    }
}

/// `ok` says who holds the volume now, whatever became of the request (L-VOL-6).
fn check_record(exchange: &Exchange, answer: &Response) {
    let holds = |holders: &[VolumeGrant], node: &str, uid: Option<&str>| {
        let is_meant = |holder: &&VolumeGrant| {
            holder.node == node && uid.is_none_or(|uid| holder.pod_uid == uid)
        };
        holders.iter().any(|holder| is_meant(&holder))
    };
    let (ok, expected, reason) = match (&exchange.request, answer) {
        (Request::Attach(request), Response::Attach(answer)) => {
            let holders = &answer.record.as_ref().unwrap().holders;
            (answer.ok, holds(holders, &request.node, Some(&request.pod_uid)), &answer.reason)
        }
        (Request::Detach(request), Response::Detach(answer)) => {
            let holders = &answer.record.as_ref().unwrap().holders;
            (answer.ok, !holds(holders, &request.node, Some(&request.pod_uid)), &answer.reason)
        }
        (Request::Break(request), Response::Break(answer)) => {
            let holders = &answer.record.as_ref().unwrap().holders;
            (answer.ok, !holds(holders, &request.node, None), &answer.reason)
        }
        _ => return,
    };
    assert!(ok == expected || reason == "VersionConflict", "{exchange:?}");
}
