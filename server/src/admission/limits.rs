//! Limits on how many calls are under way at a time, for how long, and on what they send.

use std::time::Duration;

use berth_proto::layout::Bounds;

/// Limits on load. A call beyond one is refused with `RESOURCE_EXHAUSTED`, and a retry delay where that helps.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct LoadLimits {
    /// Most open connections of a listener (`maxConnections`, default 4,096).
    pub max_connections: usize,
    /// Most streams, that is calls, of one gRPC connection at a time (`maxStreamsPerConnection`, default 1,024); a
    /// client that respects HTTP/2 makes further calls wait.
    pub max_streams_per_connection: u32,
    /// Most unary calls under way, from their headers to the last byte of their answers (`maxConcurrentCalls`, default
    /// 4,096).
    pub max_concurrent_calls: usize,
    /// Most open `Sync`, `PlaceStream` and `EvaluatePods` streams (`maxOpenStreams`, default 1,024).
    pub max_open_streams: usize,
    /// How long a decision may be expected to wait for a worker (`maxQueueTime`, default 100 ms). A queue that has not
    /// been empty for this long is a standing queue: then no call waits until fewer calls come than can be carried out.
    /// Simulations and the ledger get ten times as much.
    pub max_queue_time: Duration,
    /// How long a unary call may take, whatever its caller's deadline (`maxCallTime`, default 2 minutes); simulations
    /// get five times as much.
    pub max_call_time: Duration,
    /// How long a response may wait for its reader before the connection is closed (`slowReaderTimeout`, default 60 s).
    pub slow_reader_timeout: Duration,
    /// Most bytes of the headers of one call, as HTTP/2 counts them (`maxHeaderBytes`, default 16 KiB).
    pub max_header_bytes: u32,
    /// Most bytes of all messages that were received and are not yet decided, undecoded and decoded, and of answers that
    /// are not yet read (`maxBufferedBytes`, default 320 MiB). One caller has at most half of it.
    pub max_buffered_bytes: usize,
    /// Most elements of one list of messages, or of one map, in an object of a request (`maxListItems`, default 1,000).
    pub max_list_items: usize,
    /// Most elements of all lists of one object of a request (`maxObjectItems`, default 10,000).
    pub max_object_items: usize,
    /// Most bytes of one object of a request (`maxObjectBytes`, default 3 MiB, as kube-apiserver).
    pub max_object_bytes: usize,
    /// Most elements of one list of a request, such as its entries (`maxRequestItems`, default 100,000).
    pub max_request_items: usize,
}

impl Default for LoadLimits {
    fn default() -> LoadLimits {
        LoadLimits {
            max_connections: 4_096,
            max_streams_per_connection: 1_024,
            max_concurrent_calls: 4_096,
            max_open_streams: 1_024,
            max_queue_time: Duration::from_millis(100),
            max_call_time: Duration::from_secs(120),
            slow_reader_timeout: Duration::from_secs(60),
            max_header_bytes: 16 << 10,
            max_buffered_bytes: 320 << 20,
            max_list_items: 1_000,
            max_object_items: 10_000,
            max_object_bytes: 3 << 20,
            max_request_items: 100_000,
        }
    }
}

impl LoadLimits {
    /// Bounds of one message.
    pub(crate) fn bounds(&self) -> Bounds {
        Bounds {
            max_list_items: self.max_list_items,
            max_object_items: self.max_object_items,
            max_object_bytes: self.max_object_bytes,
            max_request_items: self.max_request_items,
        }
    }
}
