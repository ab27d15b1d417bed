//! Messages of the events about a container that has ended (L-CSTATE-17).

use std::fmt::Write as _;

use super::end::{End, EventReason};
use crate::lifecycle::reading;
use crate::lifecycle::restart::{DecidedBy, Hold, RestartAction};
use crate::lifecycle::vocabulary::ContainerKind;

/// The longest message that the API server accepts in an event, in bytes.
const LONGEST: usize = 1024;

/// The message of the end: how it ended, how long it ran, what it left behind, and what follows.
pub(super) fn of_end(end: &End<'_>, reason: EventReason) -> String {
    let mut text = format!("{} `{}` {}", kind(end.kind), end.name, how(end, reason));
    if let Some(seconds) = lasted(end) {
        add(&mut text, format_args!(" after {seconds} s"));
    }
    add(&mut text, format_args!("; {}", what_follows(end)));
    if !end.terminated.message.is_empty() {
        add(&mut text, format_args!("; it said: {}", end.terminated.message.trim()));
    }
    cut(text)
}

/// The message of a restart that has to wait.
pub(super) fn of_back_off(end: &End<'_>, hold: Hold) -> String {
    let n = end.n_restarts.max(0).saturating_add(1);
    cut(format!(
        "{} `{}` has ended again: restart {n} waits until {} s after its end",
        kind(end.kind),
        end.name,
        hold.delay
    ))
}

const fn kind(kind: ContainerKind) -> &'static str {
    match kind {
        ContainerKind::Regular => "container",
        ContainerKind::Init => "init container",
        ContainerKind::Sidecar => "sidecar",
        ContainerKind::Ephemeral => "ephemeral container",
    }
}

fn how(end: &End<'_>, reason: EventReason) -> String {
    let code = end.terminated.exit_code;
    let by_signal = end.signal.map(|signal| match signal.name() {
        Some(name) => format!("by {name}, "),
        None => format!("by signal {}, ", signal.number()),
    });
    let by_signal = by_signal.unwrap_or_default();
    match reason {
        EventReason::Completed => "completed with exit code 0".to_owned(),
        EventReason::OomKilled => {
            let resources = end.container.and_then(|container| container.resources.as_ref());
            let limit = resources.and_then(|resources| resources.limits.get("memory"));
            let limit = limit.map(|limit| format!(" with a limit of {limit}")).unwrap_or_default();
            format!("ran out of memory{limit} and was killed (exit code {code})")
        }
        EventReason::Stopped => format!("was stopped on request ({by_signal}exit code {code})"),
        EventReason::Failed | EventReason::BackOff => {
            let reported = match end.terminated.reason.as_str() {
                "" | "Error" => String::new(),
                reason => format!(", {reason}"),
            };
            format!("failed ({by_signal}exit code {code}{reported})")
        }
    }
}

/// Seconds for which the container ran, if both times are known.
fn lasted(end: &End<'_>) -> Option<i64> {
    let started = reading::optional(end.terminated.started_at.as_ref())?;
    let finished = reading::optional(end.terminated.finished_at.as_ref())?;
    Some(finished.saturating_sub(started)).filter(|seconds| *seconds >= 0)
}

fn what_follows(end: &End<'_>) -> String {
    let by = match end.decided_by {
        DecidedBy::PodDeleted => "its pod is being deleted".to_owned(),
        DecidedBy::InitCompleted => "it has done its work".to_owned(),
        DecidedBy::Sidecar => "it is a sidecar".to_owned(),
        DecidedBy::Ephemeral => "ephemeral containers run once".to_owned(),
        DecidedBy::Rule(index) => format!("restart rule {index}"),
        DecidedBy::ContainerPolicy => "its own restart policy".to_owned(),
        DecidedBy::PodPolicy => "the restart policy of its pod".to_owned(),
        DecidedBy::NeverStarted
        | DecidedBy::Running
        | DecidedBy::StateUnknown
        | DecidedBy::StateCreated => "all containers restart in place".to_owned(),
    };
    match end.action {
        RestartAction::None => format!("it is not started again ({by})"),
        RestartAction::Restart => match end.hold {
            Some(hold) if hold.delay > 0 => {
                format!("it is started again {} s after its end ({by})", hold.delay)
            }
            Some(_) | None => format!("it is started again ({by})"),
        },
        RestartAction::RestartAllContainers => {
            format!("every container of the pod is started again in place ({by})")
        }
    }
}

fn add(text: &mut String, more: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = text.write_fmt(more);
}

/// Cuts a message at the end of a character.
fn cut(mut text: String) -> String {
    if text.len() > LONGEST {
        let end = (0..=LONGEST).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
    }
    text
}
