//! Limits on load: the section `limits` of a file, flags and variables `BERTH_MAX_…`.

use std::path::Path;
use std::time::Duration;

use clap::builder::RangedU64ValueParser;

use super::read::{at_least, elapsed, not_zero};
use super::settings::{Layer, Setting as _, settings};
use crate::admission::LoadLimits;
use crate::document::decode::{self, Cursor};
use crate::document::{ConfigError, duration};

/// Minimum of the limit on headers: less would not hold a bearer token and the headers of gRPC itself.
const MIN_HEADER_BYTES: u32 = 4 << 10;
/// Minimum of the budget of bytes: less would not hold the messages of a feed.
const MIN_BUFFERED_BYTES: usize = 32 << 20;
/// Minimum of the queue time: less cannot be distinguished from delays of the thread scheduler.
const MIN_QUEUE_TIME: Duration = Duration::from_millis(1);
/// Minimum of the timeouts: less would end healthy calls, and close healthy connections.
const MIN_TIMEOUT: Duration = Duration::from_secs(1);

settings! {
    /// The section `limits` as flags, variables or a file give it.
    #[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
    pub struct LimitsOverrides for LoadLimits, in directory, read as limits;

    /// Most open connections of a listener [default: 4096]
    #[arg(long, env = "BERTH_MAX_CONNECTIONS", value_name = "N", allow_negative_numbers = true,
        value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    max_connections: Option<usize> {
        file: "maxConnections" = decode::integer,
        check: not_zero => "--max-connections",
        option: max_connections,
        shown: "`4096`",
        page: "open connections of one port.",
    }

    /// Most calls of one gRPC connection at a time [default: 1024]
    #[arg(long, env = "BERTH_MAX_STREAMS_PER_CONNECTION", value_name = "N", allow_negative_numbers = true,
        value_parser = RangedU64ValueParser::<u32>::new().range(1..))]
    max_streams_per_connection: Option<u32> {
        file: "maxStreamsPerConnection" = decode::integer,
        check: not_zero => "--max-streams-per-connection",
        option: max_streams_per_connection,
        shown: "`1024`",
        page: "concurrent calls of one gRPC connection.",
    }

    /// Most unary calls under way at a time [default: 4096]
    #[arg(long, env = "BERTH_MAX_CONCURRENT_CALLS", value_name = "N", allow_negative_numbers = true,
        value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    max_concurrent_calls: Option<usize> {
        file: "maxConcurrentCalls" = decode::integer,
        check: not_zero => "--max-concurrent-calls",
        option: max_concurrent_calls,
        shown: "`4096`",
        page: "unary calls in flight.",
    }

    /// Most open streams of the service's own methods [default: 1024]
    #[arg(long, env = "BERTH_MAX_OPEN_STREAMS", value_name = "N", allow_negative_numbers = true,
        value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    max_open_streams: Option<usize> {
        file: "maxOpenStreams" = decode::integer,
        check: not_zero => "--max-open-streams",
        option: max_open_streams,
        shown: "`1024`",
        page: "open streams of Berth's own methods.",
    }

    /// How long a decision may be expected to wait for a worker before it is refused [default: 100ms]
    #[arg(long, env = "BERTH_MAX_QUEUE_TIME", value_name = "DURATION", value_parser = duration::parse)]
    max_queue_time: Option<Duration> {
        file: "maxQueueTime" = elapsed,
        check: at_least(MIN_QUEUE_TIME) => "--max-queue-time",
        option: max_queue_time,
        shown: "`100ms`",
        page: "a decision is refused if its expected wait for a worker is longer.",
    }

    /// How long a unary call may take; simulations get five times as much [default: 2m]
    #[arg(long, env = "BERTH_MAX_CALL_TIME", value_name = "DURATION", value_parser = duration::parse)]
    max_call_time: Option<Duration> {
        file: "maxCallTime" = elapsed,
        check: at_least(MIN_TIMEOUT) => "--max-call-time",
        option: max_call_time,
        shown: "`2m`",
        page: "how long a unary call may take. Simulations may take five times as long.",
    }

    /// How long an answer may wait for its reader before the connection is closed [default: 1m]
    #[arg(long, env = "BERTH_SLOW_READER_TIMEOUT", value_name = "DURATION", value_parser = duration::parse)]
    slow_reader_timeout: Option<Duration> {
        file: "slowReaderTimeout" = elapsed,
        check: at_least(MIN_TIMEOUT) => "--slow-reader-timeout",
        option: slow_reader_timeout,
        shown: "`1m`",
        page: "how long a response may wait for its reader before the connection is closed.",
    }

    /// Most bytes of the headers of one call [default: 16384]
    #[arg(long, env = "BERTH_MAX_HEADER_BYTES", value_name = "N", allow_negative_numbers = true,
        value_parser = RangedU64ValueParser::<u32>::new().range(u64::from(MIN_HEADER_BYTES)..))]
    max_header_bytes: Option<u32> {
        file: "maxHeaderBytes" = decode::integer,
        check: at_least(MIN_HEADER_BYTES) => "--max-header-bytes",
        option: max_header_bytes,
        shown: "`16384`",
        page: "bytes of the headers of one call, at least 4096.",
    }

    /// Most bytes of messages under way and of unread answers [default: 335544320]
    #[arg(long, env = "BERTH_MAX_BUFFERED_BYTES", value_name = "N", allow_negative_numbers = true,
        value_parser = RangedU64ValueParser::<usize>::new().range(MIN_BUFFERED_BYTES as u64..))]
    max_buffered_bytes: Option<usize> {
        file: "maxBufferedBytes" = decode::integer,
        check: at_least(MIN_BUFFERED_BYTES) => "--max-buffered-bytes",
        option: max_buffered_bytes,
        shown: "`335544320`",
        page: "bytes of all messages that are not yet decided, and of unread answers, at least 33554432. One caller has half.",
    }

    /// Most elements of one list or map in an object [default: 1000]
    #[arg(long, env = "BERTH_MAX_LIST_ITEMS", value_name = "N", allow_negative_numbers = true,
        value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    max_list_items: Option<usize> {
        file: "maxListItems" = decode::integer,
        check: not_zero => "--max-list-items",
        option: max_list_items,
        shown: "`1000`",
        page: "elements of one list or map in an object of a request.",
    }

    /// Most elements of all lists of an object [default: 10000]
    #[arg(long, env = "BERTH_MAX_OBJECT_ITEMS", value_name = "N", allow_negative_numbers = true,
        value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    max_object_items: Option<usize> {
        file: "maxObjectItems" = decode::integer,
        check: not_zero => "--max-object-items",
        option: max_object_items,
        shown: "`10000`",
        page: "elements of all lists of one object of a request.",
    }

    /// Most bytes of one object of a request [default: 3145728]
    #[arg(long, env = "BERTH_MAX_OBJECT_BYTES", value_name = "N", allow_negative_numbers = true,
        value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    max_object_bytes: Option<usize> {
        file: "maxObjectBytes" = decode::integer,
        check: not_zero => "--max-object-bytes",
        option: max_object_bytes,
        shown: "`3145728`",
        page: "bytes of one object of a request.",
    }

    /// Most elements of one list of a request [default: 100000]
    #[arg(long, env = "BERTH_MAX_REQUEST_ITEMS", value_name = "N", allow_negative_numbers = true,
        value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    max_request_items: Option<usize> {
        file: "maxRequestItems" = decode::integer,
        check: not_zero => "--max-request-items",
        option: max_request_items,
        shown: "`100000`",
        page: "elements of one list of a request, such as its entries.",
    }
}

impl LimitsOverrides {
    /// These limits, completed by those of `file`.
    ///
    /// # Errors
    /// A bound that is too small to work with.
    pub(super) fn over(&self, file: &LimitsOverrides) -> Result<LoadLimits, ConfigError> {
        let given = Layer::over(self, file);
        given.check()?;
        Ok(given.or(LoadLimits::default()))
    }
}

/// Decodes the field `limits` of the file.
pub(super) fn of_file(value: Cursor<'_>) -> Option<LimitsOverrides> {
    value.object(|fields| LimitsOverrides::read(fields, Path::new("")))
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
            "maxBufferedBytes: 33554432\nmaxListItems: 9\nmaxObjectItems: 10\nmaxObjectBytes: 11\n",
            "maxRequestItems: 12\n",
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
            max_buffered_bytes: 32 << 20,
            max_list_items: 9,
            max_object_items: 10,
            max_object_bytes: 11,
            max_request_items: 12,
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
