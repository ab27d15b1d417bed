//! Lines of JSON: one object each, with `time`, `level`, `target`, `message`, the event's fields, and the fields of the
//! spans around it, such as `trace_id` and `span_id` of the current call.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

/// Keys of the line itself, which fields cannot use.
const OWN: [&str; 4] = ["time", "level", "target", "message"];

/// Writes an event as one line. Fields of spans have to be formatted as JSON.
pub(super) struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let mut fields = Fields::default();
        event.record(&mut fields);
        let metadata = event.metadata();
        let own = [
            ("time", Value::from(time)),
            ("level", Value::from(metadata.level().as_str())),
            ("target", Value::from(metadata.target())),
            ("message", Value::from(fields.message)),
        ];
        let mut line = Line { out: String::with_capacity(256), keys: BTreeSet::new() };
        own.into_iter().for_each(|(key, value)| line.add(key, &value));
        fields.others.iter().for_each(|(key, value)| line.add(key, value));
        // The innermost span comes first, because the first field of a name wins.
        for span in context.event_scope().into_iter().flatten() {
            let extensions = span.extensions();
            let Some(formatted) = extensions.get::<FormattedFields<N>>() else { continue };
            let of_span: Map<String, Value> =
                serde_json::from_str(&formatted.fields).unwrap_or_default();
            of_span.iter().for_each(|(key, value)| line.add(key, value));
        }
        writeln!(writer, "{}}}", line.out)
    }
}

/// A JSON object without its closing brace.
struct Line {
    out: String,
    keys: BTreeSet<String>,
}

impl Line {
    /// Adds a field, unless the object has one of that name.
    fn add(&mut self, key: &str, value: &Value) {
        if !self.keys.insert(key.to_owned()) {
            return;
        }
        self.out.push(if self.out.is_empty() { '{' } else { ',' });
        self.out.push_str(&Value::from(key).to_string());
        self.out.push(':');
        self.out.push_str(&value.to_string());
    }
}

/// Message and fields of an event.
#[derive(Default)]
struct Fields {
    message: String,
    others: Vec<(String, Value)>,
}

impl Fields {
    fn add(&mut self, field: &Field, value: Value) {
        // Raw identifiers are written with a prefix.
        let name = field.name().trim_start_matches("r#");
        if name == "message" {
            self.message = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        } else if OWN.contains(&name) {
            self.others.push((format!("{name}_"), value));
        } else {
            self.others.push((name.to_owned(), value));
        }
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, Value::from(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, Value::from(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, Value::from(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, Value::from(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, Value::from(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, Value::from(format!("{value:?}")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::sync::{Arc, Mutex};
    use tracing_subscriber::fmt::format::JsonFields;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The lines logged by `work`.
    fn lines(work: impl FnOnce()) -> Vec<Value> {
        let sink = Sink::default();
        let writer = sink.clone();
        let subscriber = tracing_subscriber::fmt()
            .fmt_fields(JsonFields::new())
            .event_format(JsonLines)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, work);
        let text = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn every_line_is_an_object() {
        let lines = lines(|| {
            tracing::info!(n = 7, ok = true, ratio = 0.5, text = "a\nb\"", "two\nlines \u{1b}");
            tracing::warn!(level = "odd", time = 1, r#type = "Pod", "fields of its own");
        });
        assert_eq!(lines.len(), 2);
        let first = &lines[0];
        assert_eq!(first["level"], "INFO");
        assert_eq!(first["message"], "two\nlines \u{1b}");
        assert_eq!(first["text"], "a\nb\"");
        assert_eq!(
            (&first["n"], &first["ok"], &first["ratio"]),
            (&7.into(), &true.into(), &0.5.into())
        );
        assert!(first["target"].as_str().unwrap().ends_with("json::tests"), "{first}");
        assert!(first["time"].as_str().unwrap().ends_with('Z'), "{first}");
        let second = &lines[1];
        assert_eq!((&second["level"], &second["level_"]), (&"WARN".into(), &"odd".into()));
        assert_eq!(second["type"], "Pod");
    }

    #[test]
    fn the_innermost_span_names_the_trace() {
        let lines = lines(|| {
            let outer = tracing::error_span!("call", trace_id = "t", span_id = "outer", who = "me");
            let _outer = outer.enter();
            tracing::error_span!("call", span_id = "inner").in_scope(|| tracing::info!("within"));
            tracing::info!("without");
        });
        let ids = |line: &Value| (line["trace_id"].clone(), line["span_id"].clone());
        assert_eq!(ids(&lines[0]), ("t".into(), "inner".into()));
        assert_eq!(lines[0]["who"], "me");
        assert_eq!(ids(&lines[1]), ("t".into(), "outer".into()));
    }
}
