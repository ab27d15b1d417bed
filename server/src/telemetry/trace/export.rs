//! Export: sends spans to a collector over OTLP, in batches, from a thread of its own. If the collector does not keep
//! up, spans are dropped and calls are not delayed.

use std::fmt;
use std::time::Duration;

use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SpanData, SpanProcessor as _,
};

const NAME: &str = "berth";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Most spans that wait to be sent; further ones are dropped.
const MAX_WAITING: usize = 8_192;
const MAX_BATCH: usize = 512;
const BATCH_EVERY: Duration = Duration::from_secs(1);
/// Time limit of one batch, from its first byte to the collector's response.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit for the remaining spans when the server stops.
const FINISH_TIMEOUT: Duration = Duration::from_secs(3);

/// Why spans cannot be sent.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot send spans to `{endpoint}`: {reason}; set `tracing.endpoint` to the host and port of a collector's OTLP receiver, such as `localhost:4317`"
)]
pub struct TracingError {
    endpoint: String,
    reason: String,
}

/// The connection to one collector.
pub(super) struct Export {
    processor: BatchSpanProcessor,
    scope: InstrumentationScope,
}

impl Export {
    /// Prepares to send to `endpoint`. The connection is made with the first batch.
    pub(super) fn to(endpoint: &str) -> Result<Export, TracingError> {
        let url = format!("http://{endpoint}");
        let exporter = SpanExporter::builder()
            .with_tonic()
            .with_endpoint(url)
            .with_timeout(EXPORT_TIMEOUT)
            .build()
            .map_err(|error| TracingError {
                endpoint: endpoint.to_owned(),
                reason: error.to_string(),
            })?;
        let config = BatchConfigBuilder::default()
            .with_max_queue_size(MAX_WAITING)
            .with_max_export_batch_size(MAX_BATCH)
            .with_scheduled_delay(BATCH_EVERY)
            .build();
        let mut processor = BatchSpanProcessor::builder(exporter).with_batch_config(config).build();
        let resource = Resource::builder()
            .with_service_name(NAME)
            .with_attribute(KeyValue::new("service.version", VERSION))
            .build();
        processor.set_resource(&resource);
        let scope = InstrumentationScope::builder(NAME).with_version(VERSION).build();
        Ok(Export { processor, scope })
    }

    pub(super) fn send(&self, span: SpanData) {
        self.processor.on_end(span);
    }

    pub(super) fn instrumentation_scope(&self) -> InstrumentationScope {
        self.scope.clone()
    }

    /// Blocks until all spans are sent or the time limit is reached.
    pub(super) fn finish(&self) {
        if let Err(error) = self.processor.shutdown_with_timeout(FINISH_TIMEOUT) {
            tracing::warn!("spans are lost: {error}");
        }
    }
}

impl fmt::Debug for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Export").finish_non_exhaustive()
    }
}
