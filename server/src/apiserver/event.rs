//! Event: what people read under `kubectl describe`. Rules: S-ERR-9, S-PRE-23, S-Q-9.

use std::sync::Arc;

use super::binding::PodName;

/// Maximum length of a note that the API server accepts, in bytes.
const MAX_NOTE_BYTES: usize = 1_024;
const CUT: &str = " ...";

/// An event of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// The pod that the event is about.
    pub regarding: PodName,
    /// Another pod that is involved.
    pub related: Option<PodName>,
    /// Whether somebody may have to act.
    pub is_warning: bool,
    /// Machine-readable reason, such as `FailedScheduling`.
    pub reason: &'static str,
    /// Machine-readable action, such as `Scheduling`.
    pub action: &'static str,
    /// Text for people; cut to 1,024 bytes (S-ERR-9).
    pub note: String,
    /// Reporter: the scheduler name of the pod's profile.
    pub reporter: Arc<str>,
}

impl Event {
    /// Event of a pod that got a node.
    #[must_use]
    pub fn scheduled(pod: &PodName, node: &str, reporter: &Arc<str>) -> Event {
        let note = format!("Successfully assigned {}/{} to {node}", pod.namespace, pod.name);
        Event::about(pod, reporter, "Scheduled", "Binding", note)
    }

    /// Event of a pod that got no node, or is not to be scheduled any more.
    #[must_use]
    pub fn failed_scheduling(pod: &PodName, message: &str, reporter: &Arc<str>) -> Event {
        let note = message.to_owned();
        let event = Event::about(pod, reporter, "FailedScheduling", "Scheduling", note);
        Event { is_warning: true, ..event }
    }

    /// Event of the pod `victim`, which is evicted for another (S-PRE-23).
    #[must_use]
    pub fn preempted(
        victim: &PodName,
        preemptor: &PodName,
        node: &str,
        reporter: &Arc<str>,
    ) -> Event {
        let note = format!("Preempted by pod {} on node {node}", preemptor.uid);
        let event = Event::about(victim, reporter, "Preempted", "Preempting", note);
        Event { related: Some(preemptor.clone()), ..event }
    }

    fn about(
        pod: &PodName,
        reporter: &Arc<str>,
        reason: &'static str,
        action: &'static str,
        note: String,
    ) -> Event {
        Event {
            regarding: pod.clone(),
            related: None,
            is_warning: false,
            reason,
            action,
            note: cut(note),
            reporter: reporter.clone(),
        }
    }
}

/// Cuts a note to [`MAX_NOTE_BYTES`], with [`CUT`] at its end if it is longer.
fn cut(mut note: String) -> String {
    if note.len() > MAX_NOTE_BYTES {
        note.truncate(note.floor_char_boundary(MAX_NOTE_BYTES - CUT.len()));
        note.push_str(CUT);
    }
    note
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_note_is_cut_to_what_the_server_takes() {
        assert_eq!(cut("short".to_owned()), "short");
        assert_eq!(cut("n".repeat(1_024)), "n".repeat(1_024));
        let long = cut("n".repeat(1_025));
        assert_eq!(long.len(), 1_024);
        assert!(long.ends_with("nnn ..."));
        assert!(cut("é".repeat(1_000)).len() <= 1_024);
    }

    #[test]
    fn texts_are_kube_schedulers() {
        let pod = |name: &str, uid: &str| PodName {
            namespace: "shop".into(),
            name: name.into(),
            uid: uid.into(),
        };
        let by: Arc<str> = "berth".into();
        let event = Event::scheduled(&pod("web", "u1"), "n1", &by);
        assert_eq!(event.note, "Successfully assigned shop/web to n1");
        let event = Event::preempted(&pod("low", "u2"), &pod("web", "u1"), "n1", &by);
        assert_eq!(event.note, "Preempted by pod u1 on node n1");
        assert_eq!((event.reason, event.action), ("Preempted", "Preempting"));
    }
}
