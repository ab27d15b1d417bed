//! Refusals: objects with invalid fields. Each is logged once per reason, and all of them together at a limited rate.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::{Duration, Instant};

use berth_engine::ModelError;

use super::object_change::Who;
use super::resource::Resource;
use crate::escape::printable;

/// Maximum number of refused objects that are remembered.
const MAX_REMEMBERED: usize = 10_000;
/// Maximum number of log lines in each [`WINDOW`].
const MAX_LINES: usize = 20;
const WINDOW: Duration = Duration::from_secs(10);

/// The objects that are currently refused.
#[derive(Default)]
pub(super) struct Refusals {
    /// Hash of the reason, by object.
    reasons: HashMap<Who, u64>,
    window: Option<Instant>,
    n_lines: usize,
    n_unsaid: usize,
}

impl Refusals {
    /// Records a refusal, and returns the line to log, if there is one.
    pub(super) fn note(&mut self, who: &Who, error: &ModelError, now: Instant) -> Option<String> {
        let mut hasher = DefaultHasher::new();
        (&error.field, &error.reason).hash(&mut hasher);
        let reason = hasher.finish();
        if self.reasons.get(who) == Some(&reason) {
            return None;
        }
        if self.reasons.len() < MAX_REMEMBERED || self.reasons.contains_key(who) {
            self.reasons.insert(who.clone(), reason);
        }
        if self.window.is_none_or(|window| now.saturating_duration_since(window) >= WINDOW) {
            self.window = Some(now);
            self.n_lines = 0;
        }
        if self.n_lines >= MAX_LINES {
            self.n_unsaid += 1;
            return None;
        }
        self.n_lines += 1;
        let text = format!("refused {}: `{}`: {}", who.text(), error.field, error.reason);
        let mut line = printable(&text).into_owned();
        match std::mem::take(&mut self.n_unsaid) {
            0 => {}
            n => line.push_str(&format!(" (and {n} more, not logged)")),
        }
        Some(line)
    }

    /// Removes an object that is valid again, or gone.
    pub(super) fn forget(&mut self, who: &Who) {
        if !self.reasons.is_empty() {
            self.reasons.remove(who);
        }
    }

    /// Removes the objects of a kind that are gone, and returns them in order.
    pub(super) fn forget_gone(
        &mut self,
        resource: Resource,
        is_there: impl Fn(&Who) -> bool,
    ) -> Vec<Who> {
        let is_gone = |who: &Who| who.resource() == resource && !is_there(who);
        let mut gone: Vec<Who> = self.reasons.keys().filter(|who| is_gone(who)).cloned().collect();
        gone.sort_unstable_by_key(Who::text);
        gone.iter().for_each(|who| self.forget(who));
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    fn node(i: usize) -> Who {
        Who::Node(format!("n{i}").into())
    }

    fn error(reason: &str) -> ModelError {
        ModelError { field: "status".to_owned(), reason: reason.to_owned() }
    }

    #[test]
    fn a_refusal_is_said_once_per_reason() {
        let (mut refusals, now) = (Refusals::default(), clock::now());
        let line = refusals.note(&node(0), &error("is\nbad"), now).unwrap();
        assert_eq!(line, "refused Node `n0`: `status`: is\\nbad");
        assert_eq!(refusals.note(&node(0), &error("is\nbad"), now), None);
        assert!(refusals.note(&node(0), &error("is worse"), now).is_some());
        refusals.forget(&node(0));
        assert!(refusals.note(&node(0), &error("is worse"), now).is_some());
        assert_eq!(refusals.forget_gone(Resource::Pods, |_| false), []);
        assert_eq!(refusals.forget_gone(Resource::Nodes, |_| false), [node(0)]);
    }

    #[test]
    fn many_refusals_are_counted_instead() {
        let (mut refusals, now) = (Refusals::default(), clock::now());
        let lines = (0..50).filter_map(|i| refusals.note(&node(i), &error("x"), now)).count();
        assert_eq!(lines, MAX_LINES);
        let line = refusals.note(&node(50), &error("x"), now + WINDOW).unwrap();
        assert!(line.ends_with("(and 30 more, not logged)"), "{line}");
    }
}
