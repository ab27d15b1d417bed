//! How a report was made: when, where, and by which command.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use serde::Serialize;

use super::number::counted;

/// Version, time, machine and command of a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Made {
    /// Version of the load generator.
    pub version: String,
    /// Time of the report in UTC, to the second.
    pub at: String,
    /// Processor, number of threads and operating system of the load generator's machine.
    pub machine: String,
    /// The command line.
    pub command: String,
}

impl Made {
    /// The present process and machine.
    pub fn now() -> Made {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let at = Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
        Made {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            at: at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
            machine: machine(),
            command: command(std::env::args()),
        }
    }
}

/// The program's name and its arguments; an argument with blanks in single quotes.
fn command(mut args: impl Iterator<Item = String>) -> String {
    let program = args.next().unwrap_or_default();
    let program = program.rsplit('/').next().unwrap_or_default().to_owned();
    let quoted = args.map(|arg| match arg.contains(|c: char| c.is_whitespace() || c == '\'') {
        true => format!("'{}'", arg.replace('\'', "'\\''")),
        false => arg,
    });
    std::iter::once(program).chain(quoted).collect::<Vec<_>>().join(" ")
}

fn machine() -> String {
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = counted(n_threads as u64, "thread");
    let processor = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    let processor = processor.unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    format!("{processor}, {threads}, {}", std::env::consts::OS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_pasted() {
        let args = ["/usr/bin/berth-loadgen", "run", "--html", "a b.html", "it's"];
        let text = command(args.into_iter().map(str::to_owned));
        assert_eq!(text, "berth-loadgen run --html 'a b.html' 'it'\\''s'");
    }

    #[test]
    fn the_present_is_complete() {
        let made = Made::now();
        assert!(made.at.starts_with("20") && made.at.ends_with(" UTC"), "{}", made.at);
        assert!(made.machine.contains("thread"), "{}", made.machine);
    }
}
