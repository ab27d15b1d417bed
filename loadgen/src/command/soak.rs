//! `berth-loadgen soak`: calls of all kinds for a long time, with recounts.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use berth_client::Credentials;
use clap::Args;

use super::interrupt::Interrupt;
use super::output_file::OutputFile;
use super::{CommandError, Output, print};
use crate::soak::report::{Bounds, Sample};
use crate::soak::{self, SoakSpec};

/// Flags of `soak`.
#[derive(Debug, Args)]
#[command(allow_negative_numbers = true)]
pub struct Flags {
    /// gRPC address of the server, for example http://127.0.0.1:7420. Its whole cluster is replaced.
    #[arg(long, env = "BERTH_SERVER", value_name = "URL")]
    server: String,
    /// Credentials of the client.
    #[command(flatten)]
    credentials: Credentials,
    /// HTTP address of the server: its probes and metrics are requested, and it is also sent garbage.
    #[arg(long, value_name = "URL")]
    http: Option<String>,
    /// Process id of the server on this machine: the growth of its memory, file descriptors and threads is judged.
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Duration: seconds, or a number with a unit: 90s, 30m, 2h.
    #[arg(long, default_value = "30m", value_parser = duration)]
    duration: Duration,
    /// Intended steps a second, over all kinds of callers.
    #[arg(long, default_value_t = 200.0, value_name = "STEPS/S")]
    rate: f64,
    /// Nodes of the initial cluster; up to as many again are added and removed.
    #[arg(long, default_value_t = 300)]
    nodes: usize,
    /// Limit of the pods that callers keep, besides those of the initial cluster.
    #[arg(long, default_value_t = 3_000)]
    pods: usize,
    /// Seed of all random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Interval of the recounts.
    #[arg(long, default_value = "10s", value_parser = duration)]
    interval: Duration,
    /// Growth of resident memory over the second half that counts as flat, in MiB an hour.
    #[arg(long, default_value_t = Bounds::default().memory_mib_per_hour, value_name = "MIB/H")]
    max_memory_growth: f64,
    /// Growth of file descriptors, and of threads, that counts as flat, in number an hour.
    #[arg(long, default_value_t = Bounds::default().fds_per_hour, value_name = "N/H")]
    max_fd_growth: f64,
    /// Attackers beside the callers: readers who take what they can.
    #[arg(long, default_value_t = 0, value_name = "N")]
    attackers: usize,
    /// File whose first line is the attackers' bearer token, of a user with the role of a reader.
    #[arg(long, value_name = "FILE")]
    attacker_token_file: Option<PathBuf>,
    /// Format of the report.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    /// Also write a picture of memory, descriptors and pods over time.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Runs a soak and reports. Exit code 1 when a recount differed from the server's responses, or when memory, file
/// descriptors or threads grow beyond their bounds; 130 or 143 after a signal, which ends the soak early.
pub async fn run(flags: Flags) -> Result<ExitCode, CommandError> {
    let spec = SoakSpec {
        server: flags.server,
        credentials: flags.credentials,
        http: flags.http,
        pid: flags.pid,
        duration: flags.duration,
        rate: flags.rate,
        n_nodes: flags.nodes,
        n_pods: flags.pods,
        seed: flags.seed,
        interval: flags.interval,
        bounds: Bounds {
            memory_mib_per_hour: flags.max_memory_growth,
            fds_per_hour: flags.max_fd_growth,
        },
        n_attackers: flags.attackers,
        attacker_credentials: Credentials {
            token_file: flags.attacker_token_file,
            ..Credentials::default()
        },
    };
    spec.check()?;
    let picture = flags.svg.as_deref().map(OutputFile::open).transpose()?;
    let interrupt = Interrupt::listen("waiting for the current steps")?;
    let report = soak::run(spec, interrupt.received(), print_sample).await?;
    print(flags.output, &report.render(), &report)?;
    if let Some(picture) = picture {
        picture.write(&report.picture())?;
    }
    let code = if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    Ok(interrupt.exit_code().unwrap_or(code))
}

/// Prints one line a recount on standard error.
fn print_sample(sample: &Sample) {
    let usage = sample.usage.map_or_else(String::new, |usage| {
        let mebibytes = usage.rss_bytes / (1 << 20);
        format!(", {mebibytes} MiB, {} descriptors, {} threads", usage.n_fds, usage.n_threads)
    });
    let verdict = match sample.n_differences {
        0 => "exact".to_owned(),
        n => format!("DIFFERENT in {n}"),
    };
    // `eprintln!` would panic if standard error is closed.
    drop(writeln!(
        std::io::stderr(),
        "{:6.0} s: {} steps, {} nodes, {} pods, {} assumed, {verdict}{usage}",
        sample.at_seconds,
        sample.n_steps,
        sample.n_nodes,
        sample.n_pods,
        sample.n_assumed
    ));
}

/// Parses a number of seconds, or a number with one unit.
fn duration(text: &str) -> Result<Duration, String> {
    let (number, seconds) = match text.as_bytes().last() {
        Some(b's') => (&text[..text.len() - 1], 1.0),
        Some(b'm') => (&text[..text.len() - 1], 60.0),
        Some(b'h') => (&text[..text.len() - 1], 3_600.0),
        _ => (text, 1.0),
    };
    let parsed = number.parse::<f64>().ok().map(|number| number * seconds);
    let duration = parsed.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let positive = duration.filter(|duration| !duration.is_zero());
    positive.ok_or_else(|| format!("`{text}` is not a positive time, such as `90s`, `30m` or `2h`"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::duration;

    #[test]
    fn durations_have_a_unit_or_are_seconds() {
        for (text, seconds) in [("90", 90.0), ("1.5s", 1.5), ("30m", 1_800.0), ("2h", 7_200.0)] {
            assert_eq!(duration(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
        }
        for text in ["", "s", "0", "-1s", "1d", "1e99h", "nan", "1 s"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
