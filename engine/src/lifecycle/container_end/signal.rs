//! Signal that ended a process, from its status or its exit code (L-CSTATE-17).

use berth_proto::core_v1::ContainerStateTerminated;

/// Number of a signal of Linux, from 1 to 64.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Signal(i32);

/// Exit code that runtimes report for signal 0: signal `n` is reported as this code plus `n`.
const BY_SIGNAL: i32 = 128;
const LAST: i32 = 64;
const KILL: i32 = 9;
const TERM: i32 = 15;

impl Signal {
    /// The signal that the status names, else the one that the exit code stands for.
    pub(super) fn of(terminated: &ContainerStateTerminated) -> Option<Signal> {
        let numbers = [terminated.signal, terminated.exit_code.saturating_sub(BY_SIGNAL)];
        numbers.into_iter().find(|number| (1..=LAST).contains(number)).map(Signal)
    }

    pub(super) const fn number(self) -> i32 {
        self.0
    }

    /// Whether node agents stop processes by this signal (L-TERM-9, L-TERM-11).
    pub(super) const fn stops(self) -> bool {
        matches!(self.0, KILL | TERM)
    }

    /// The signal's name on Linux; `None` for the less usual ones.
    pub(super) const fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            1 => "SIGHUP",
            2 => "SIGINT",
            3 => "SIGQUIT",
            4 => "SIGILL",
            5 => "SIGTRAP",
            6 => "SIGABRT",
            7 => "SIGBUS",
            8 => "SIGFPE",
            KILL => "SIGKILL",
            10 => "SIGUSR1",
            11 => "SIGSEGV",
            12 => "SIGUSR2",
            13 => "SIGPIPE",
            14 => "SIGALRM",
            TERM => "SIGTERM",
            24 => "SIGXCPU",
            25 => "SIGXFSZ",
            31 => "SIGSYS",
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// L-CSTATE-17
    #[test]
    fn the_signal_of_a_status_or_of_an_exit_code() {
        let named = |signal, exit_code| {
            let terminated = ContainerStateTerminated {
                signal,
                exit_code,
                ..ContainerStateTerminated::default()
            };
            Signal::of(&terminated).map(|signal| (signal.number(), signal.name()))
        };
        assert_eq!(named(0, 137), Some((9, Some("SIGKILL"))));
        assert_eq!(named(0, 143), Some((15, Some("SIGTERM"))));
        assert_eq!(named(11, 2), Some((11, Some("SIGSEGV"))));
        assert_eq!(named(0, 128 + 40), Some((40, None)));
        for code in [i32::MIN, -1, 0, 1, 128, 193, 255, i32::MAX] {
            assert_eq!(named(0, code), None, "{code}");
        }
    }
}
