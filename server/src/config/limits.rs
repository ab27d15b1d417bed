//! Limits on load: the section `limits` of a file, flags and variables `BERTH_MAX_…`.

use std::time::Duration;

use clap::builder::RangedU64ValueParser;

use crate::admission::LoadLimits;
use crate::document::decode::{self, Cursor};
use crate::document::{ConfigError, duration};

/// Limits from flags, variables or a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Limits")]
pub struct LimitsOverrides {
    /// Most open connections of a listener [default: 4096]
    #[arg(long, env = "BERTH_MAX_CONNECTIONS", value_name = "N", allow_negative_numbers = true,
        value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub max_connections: Option<usize>,
    /// Most calls of one gRPC connection at a time [default: 1024]
    #[arg(long, env = "BERTH_MAX_STREAMS_PER_CONNECTION", value_name = "N", allow_negative_numbers = true,
        value_parser = RangedU64ValueParser::<u32>::new().range(1..))]
    pub max_streams_per_connection: Option<u32>,
    /// Most unary calls under way at a time [default: 4096]
    #[arg(long, env = "BERTH_MAX_CONCURRENT_CALLS", value_name = "N", allow_negative_numbers = true,
        value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub max_concurrent_calls: Option<usize>,
    /// Most open streams of the service's own methods [default: 1024]
    #[arg(long, env = "BERTH_MAX_OPEN_STREAMS", value_name = "N", allow_negative_numbers = true,
        value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub max_open_streams: Option<usize>,
    /// How long a decision may be expected to wait for a worker before it is refused [default: 100ms]
    #[arg(long, env = "BERTH_MAX_QUEUE_TIME", value_name = "DURATION", value_parser = duration::parse)]
    pub max_queue_time: Option<Duration>,
    /// How long a unary call may take; simulations get five times as much [default: 2m]
    #[arg(long, env = "BERTH_MAX_CALL_TIME", value_name = "DURATION", value_parser = duration::parse)]
    pub max_call_time: Option<Duration>,
    /// How long an answer may wait for its reader before the connection is closed [default: 1m]
    #[arg(long, env = "BERTH_SLOW_READER_TIMEOUT", value_name = "DURATION", value_parser = duration::parse)]
    pub slow_reader_timeout: Option<Duration>,
    /// Most bytes of the headers of one call [default: 16384]
    #[arg(long, env = "BERTH_MAX_HEADER_BYTES", value_name = "N", allow_negative_numbers = true,
        value_parser = RangedU64ValueParser::<u32>::new().range(u64::from(MIN_HEADER_BYTES)..))]
    pub max_header_bytes: Option<u32>,
}

/// Minimum of the limit on headers: less would not hold a bearer token and the headers of gRPC itself.
const MIN_HEADER_BYTES: u32 = 4 << 10;
/// Minimum of the queue time: less cannot be distinguished from delays of the thread scheduler.
const MIN_QUEUE_TIME: Duration = Duration::from_millis(1);
/// Minimum of the timeouts: less would end healthy calls, and close healthy connections.
const MIN_TIMEOUT: Duration = Duration::from_secs(1);

impl LimitsOverrides {
    /// These limits, completed by those of `file`.
    ///
    /// # Errors
    /// A time that is too short; numbers are checked where they are parsed.
    pub(super) fn over(&self, file: &LimitsOverrides) -> Result<LoadLimits, ConfigError> {
        let default = LoadLimits::default();
        let limits = LoadLimits {
            max_connections: self
                .max_connections
                .or(file.max_connections)
                .unwrap_or(default.max_connections),
            max_streams_per_connection: self
                .max_streams_per_connection
                .or(file.max_streams_per_connection)
                .unwrap_or(default.max_streams_per_connection),
            max_concurrent_calls: self
                .max_concurrent_calls
                .or(file.max_concurrent_calls)
                .unwrap_or(default.max_concurrent_calls),
            max_open_streams: self
                .max_open_streams
                .or(file.max_open_streams)
                .unwrap_or(default.max_open_streams),
            max_queue_time: self
                .max_queue_time
                .or(file.max_queue_time)
                .unwrap_or(default.max_queue_time),
            max_call_time: self
                .max_call_time
                .or(file.max_call_time)
                .unwrap_or(default.max_call_time),
            slow_reader_timeout: self
                .slow_reader_timeout
                .or(file.slow_reader_timeout)
                .unwrap_or(default.slow_reader_timeout),
            max_header_bytes: self
                .max_header_bytes
                .or(file.max_header_bytes)
                .unwrap_or(default.max_header_bytes),
        };
        for (name, value, least) in [
            ("--max-queue-time", limits.max_queue_time, MIN_QUEUE_TIME),
            ("--max-call-time", limits.max_call_time, MIN_TIMEOUT),
            ("--slow-reader-timeout", limits.slow_reader_timeout, MIN_TIMEOUT),
        ] {
            if value < least {
                let reason = at_least(least);
                return Err(ConfigError::Setting { name: name.to_owned(), reason });
            }
        }
        Ok(limits)
    }
}

fn at_least(least: Duration) -> String {
    format!("must be at least {least:?}")
}

/// Decodes the field `limits` of the file.
pub(super) fn of_file(value: Cursor<'_>) -> Option<LimitsOverrides> {
    value.object(|fields| LimitsOverrides {
        max_connections: fields.take("maxConnections", at_least_one),
        max_streams_per_connection: fields.take("maxStreamsPerConnection", at_least_one),
        max_concurrent_calls: fields.take("maxConcurrentCalls", at_least_one),
        max_open_streams: fields.take("maxOpenStreams", at_least_one),
        max_queue_time: fields.take("maxQueueTime", |value| time(value, MIN_QUEUE_TIME)),
        max_call_time: fields.take("maxCallTime", |value| time(value, MIN_TIMEOUT)),
        slow_reader_timeout: fields.take("slowReaderTimeout", |value| time(value, MIN_TIMEOUT)),
        max_header_bytes: fields.take("maxHeaderBytes", |value| {
            let bytes = decode::integer(value)?;
            if bytes < MIN_HEADER_BYTES {
                value.report(format!("must be at least {MIN_HEADER_BYTES}"));
                return None;
            }
            Some(bytes)
        }),
    })
}

fn at_least_one<T: TryFrom<i128> + PartialEq + Default>(value: Cursor<'_>) -> Option<T> {
    let number = decode::integer::<T>(value)?;
    if number == T::default() {
        value.report("must be greater than 0");
        return None;
    }
    Some(number)
}

fn time(value: Cursor<'_>, least: Duration) -> Option<Duration> {
    let nanos = decode::nanoseconds(value)?;
    let time = u64::try_from(nanos).map(Duration::from_nanos).unwrap_or_default();
    if time < least {
        value.report(at_least(least));
        return None;
    }
    Some(time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::decode::read_text;

    fn read(text: &str) -> Result<LimitsOverrides, Vec<String>> {
        read_text(text, of_file)
    }

    #[test]
    fn every_field_is_read_and_none_is_needed() {
        assert_eq!(read("{}"), Ok(LimitsOverrides::default()));
        let written = read(concat!(
            "maxConnections: 1\nmaxStreamsPerConnection: 2\nmaxConcurrentCalls: 3\nmaxOpenStreams: 4\n",
            "maxQueueTime: 5ms\nmaxCallTime: 6s\nslowReaderTimeout: 7s\nmaxHeaderBytes: 8192\n",
        ))
        .unwrap();
        let expected = LoadLimits {
            max_connections: 1,
            max_streams_per_connection: 2,
            max_concurrent_calls: 3,
            max_open_streams: 4,
            max_queue_time: Duration::from_millis(5),
            max_call_time: Duration::from_secs(6),
            slow_reader_timeout: Duration::from_secs(7),
            max_header_bytes: 8_192,
        };
        let none = LimitsOverrides::default();
        assert_eq!(none.over(&written).unwrap(), expected);
        assert_eq!(none.over(&none).unwrap(), LoadLimits::default());
        let flags = LimitsOverrides { max_connections: Some(9), ..none };
        assert_eq!(flags.over(&written).unwrap(), LoadLimits { max_connections: 9, ..expected });
    }

    #[test]
    fn mistakes_name_the_field_or_the_flag() {
        let problems = read(
            "maxConnections: 0\nmaxQueueTime: -1s\nmaxCallTime: 10ms\nmaxHeaderBytes: 100\nmaxTime: 1s\n",
        )
        .unwrap_err();
        let expected = [
            "line 1: `maxConnections`: must be greater than 0",
            "line 2: `maxQueueTime`: must be at least 1ms",
            "line 3: `maxCallTime`: must be at least 1s",
            "line 4: `maxHeaderBytes`: must be at least 4096",
            "line 5: `maxTime`: unknown field",
        ];
        assert_eq!(problems, expected);
        let none = LimitsOverrides::default();
        let flags = LimitsOverrides { max_call_time: Some(Duration::ZERO), ..none.clone() };
        let error = flags.over(&none).unwrap_err().to_string();
        assert_eq!(error, "--max-call-time: must be at least 1s");
    }
}
