//! Query parameters: options of a call whose body is a bare Kubernetes object. A parameter is a field of the request,
//! named as in its JSON form; a field of a message inside of it has a dotted name, such as `tieBreak.seed`. The
//! schemas of the OpenAPI document say which fields there are, and of which type.

use std::time::Duration;

use berth_proto::openapi;
use serde_json::{Map, Value};

use super::failure::Failure;
use crate::document::duration;
use crate::feed::file::UnknownFields;

/// Name of the parameter with the time limit of the call.
pub(crate) const TIMEOUT: &str = "timeout";
/// Name of the parameter that asks for a response with line breaks, as in Kubernetes' API.
pub(crate) const PRETTY: &str = "pretty";
/// Name of the parameter that makes remarks of fields that Kubernetes does not know, and of pods without containers.
pub(crate) const LENIENT: &str = "lenient";
/// Name of the parameter with the number of pods of a workload, or of copies of a pod.
pub(crate) const REPLICAS: &str = "replicas";
/// Beginning of a reference to a schema.
const SCHEMAS: &str = "#/components/schemas/";
/// Beginning of the names of the schemas of Berth's own messages.
const BERTH: &str = "berth.v1.";
/// Messages of Kubernetes that are texts in JSON.
const TEXTS: [&str; 3] = [
    "io.k8s.apimachinery.pkg.api.resource.Quantity",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time",
];
/// Field that a parameter with the name of its message sets: `tieBreak=seeded` is `tieBreak.rule=seeded`.
const SHORTHAND: (&str, &str) = ("tieBreak", "rule");

/// The query of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parameters {
    /// Time limit of the call.
    pub(crate) timeout: Option<Duration>,
    /// Whether the response has line breaks.
    pub(crate) is_pretty: bool,
    /// Whether fields that Kubernetes does not know are remarks instead of errors.
    pub(crate) is_lenient: bool,
    /// The other parameters in their order.
    options: Vec<(String, String)>,
}

impl Parameters {
    /// Reads a query.
    ///
    /// # Errors
    /// A time limit or a boolean that cannot be read.
    pub(crate) fn of(query: &str) -> Result<Parameters, Failure> {
        let mut parameters = Parameters::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                TIMEOUT => parameters.timeout = Some(timeout(&value)?),
                LENIENT => parameters.is_lenient = boolean(LENIENT, &value)?,
                PRETTY => parameters.is_pretty = boolean(PRETTY, &value)?,
                _ => parameters.options.push((name.into_owned(), value.into_owned())),
            }
        }
        Ok(parameters)
    }

    /// Treatment of objects with fields that Kubernetes does not know.
    pub(crate) fn unknown_fields(&self) -> UnknownFields {
        if self.is_lenient { UnknownFields::Warn } else { UnknownFields::Refuse }
    }

    /// Takes the number of replicas out of the parameters, which are returned without it.
    ///
    /// # Errors
    /// A value that is no number from 1, a second one.
    pub(crate) fn replicas(&self) -> Result<(Option<u32>, Parameters), Failure> {
        let mut others = self.clone();
        others.options.retain(|(name, _)| name != REPLICAS);
        let mut given = self.options.iter().filter(|(name, _)| name == REPLICAS);
        let replicas = match (given.next(), given.next()) {
            (None, _) => None,
            (Some(_), Some(_)) => {
                return Err(Failure::field(REPLICAS, "the parameter is given twice"));
            }
            (Some((_, value)), None) => {
                let number = value.parse().ok().filter(|n| *n > 0);
                let reason = || format!("`{value}` is not a number of pods, from 1");
                Some(number.ok_or_else(|| Failure::field(REPLICAS, reason()))?)
            }
        };
        Ok((replicas, others))
    }

    /// Checks that there are no options: a request in Berth's own form has them as fields.
    ///
    /// # Errors
    /// The first parameter.
    pub(crate) fn check_no_options(&self) -> Result<(), Failure> {
        match self.options.first() {
            Some((name, _)) => Err(Failure::field(
                name,
                "a query parameter is an option of a body that is a Kubernetes object; this body is a request, which has the field itself",
            )),
            None => Ok(()),
        }
    }

    /// Sets the fields of `request`, whose schema is `schema`.
    ///
    /// # Errors
    /// A parameter that names no field, that occurs twice, or whose value is of another type.
    pub(crate) fn set(
        &self,
        request: &mut Map<String, Value>,
        schema: &str,
    ) -> Result<(), Failure> {
        for (name, value) in &self.options {
            set(request, schema, name, name, value)?;
        }
        Ok(())
    }
}

/// Parses a time limit: a duration as in Kubernetes, such as `500ms`, or a number of seconds.
fn timeout(text: &str) -> Result<Duration, Failure> {
    let is_number = text.chars().all(|c| c.is_ascii_digit() || c == '.');
    let with_unit = if is_number { format!("{text}s") } else { text.to_owned() };
    duration::parse(&with_unit).map_err(|reason| Failure::field(TIMEOUT, reason))
}

fn boolean(name: &str, text: &str) -> Result<bool, Failure> {
    match text {
        "" | "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Failure::field(name, format!("`{text}` is neither `true` nor `false`"))),
    }
}

/// A field of a message that a parameter can set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settable {
    /// The parameter's name.
    pub(crate) name: String,
    /// The field's schema.
    pub(crate) schema: Value,
}

/// The parameters of a request, those of messages inside of it included.
pub(crate) fn settable(schema: &str) -> Vec<Settable> {
    let mut found = Vec::new();
    for (name, property) in properties(schema) {
        match kind(&property) {
            Kind::Message(inner) => {
                let inner = settable(&inner).into_iter();
                found.extend(
                    inner.map(|field| Settable { name: format!("{name}.{}", field.name), ..field }),
                );
            }
            Kind::Other => {}
            _ => found.push(Settable { name, schema: property }),
        }
    }
    found
}

/// The properties of an object's schema.
pub(crate) fn properties(schema: &str) -> Map<String, Value> {
    let text = openapi::schema(schema).unwrap_or_default();
    match serde_json::from_str(text) {
        Ok(Value::Object(mut schema)) => match schema.remove("properties") {
            Some(Value::Object(properties)) => properties,
            _ => Map::new(),
        },
        _ => Map::new(),
    }
}

/// The name of the schema that a schema refers to.
pub(crate) fn referred(schema: &Value) -> Option<&str> {
    schema.get("$ref")?.as_str()?.strip_prefix(SCHEMAS)
}

/// The type of a field, as far as parameters differ by it.
enum Kind {
    Text,
    Boolean,
    Number,
    /// The names of an enum.
    Word(Vec<String>),
    Texts,
    /// A message of Berth's, by the name of its schema.
    Message(String),
    /// A type that has no parameter, such as an object of Kubernetes.
    Other,
}

fn kind(schema: &Value) -> Kind {
    if let Some(name) = referred(schema) {
        if TEXTS.contains(&name) {
            return Kind::Text;
        }
        let inner: Value = openapi::schema(name)
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default();
        return match (&inner["enum"], name.starts_with(BERTH)) {
            (Value::Array(names), _) => {
                Kind::Word(names.iter().filter_map(Value::as_str).map(str::to_owned).collect())
            }
            (_, true) => Kind::Message(name.to_owned()),
            (_, false) => Kind::Other,
        };
    }
    match (schema["type"].as_str(), schema["items"]["type"].as_str()) {
        (Some("string"), _) => Kind::Text,
        (Some("boolean"), _) => Kind::Boolean,
        (Some("integer" | "number"), _) => Kind::Number,
        (Some("array"), Some("string")) => Kind::Texts,
        _ => Kind::Other,
    }
}

/// Sets the field at `path` below an object with this schema; `name` is the whole parameter, for errors.
fn set(
    object: &mut Map<String, Value>,
    schema: &str,
    name: &str,
    path: &str,
    value: &str,
) -> Result<(), Failure> {
    let (head, rest) = match path.split_once('.') {
        Some((head, rest)) => (head, Some(rest)),
        None => (path, None),
    };
    let unknown = || {
        let known: Vec<String> = settable(schema).into_iter().map(|field| field.name).collect();
        Failure::field(name, format!("unknown parameter; there are {}", known.join(", ")))
    };
    let property = properties(schema).remove(head).ok_or_else(unknown)?;
    let is_again = || Failure::field(name, "the parameter is given twice");
    let parsed = match (kind(&property), rest) {
        (Kind::Message(inner), rest) => {
            let rest = match rest {
                Some(rest) => rest,
                None if head == SHORTHAND.0 => SHORTHAND.1,
                None => return Err(unknown()),
            };
            let below = object.entry(head).or_insert_with(|| Value::Object(Map::new()));
            return match below.as_object_mut() {
                Some(below) => set(below, &inner, name, rest, value),
                None => Err(is_again()),
            };
        }
        (Kind::Other, _) | (_, Some(_)) => return Err(unknown()),
        (Kind::Texts, None) => {
            let list = object.entry(head).or_insert_with(|| Value::Array(Vec::new()));
            let list = list.as_array_mut().ok_or_else(is_again)?;
            list.extend(value.split(',').map(Value::from));
            return Ok(());
        }
        (Kind::Text, None) => Value::from(value),
        (Kind::Boolean, None) => Value::from(boolean(name, value)?),
        (Kind::Number, None) => number(value)
            .ok_or_else(|| Failure::field(name, format!("`{value}` is not a number")))?,
        (Kind::Word(names), None) => Value::from(word(&names, value).ok_or_else(|| {
            Failure::field(name, format!("`{value}` is not one of {}", short(&names).join(", ")))
        })?),
    };
    match object.insert(head.to_owned(), parsed) {
        Some(_) => Err(is_again()),
        None => Ok(()),
    }
}

fn number(text: &str) -> Option<Value> {
    serde_json::from_str::<Value>(text).ok().filter(Value::is_number)
}

/// The name of an enum's value that `text` stands for: `assume` for `PLACE_MODE_ASSUME`.
fn word<'a>(names: &'a [String], text: &str) -> Option<&'a str> {
    let found = names.iter().zip(short(names)).find(|(name, short)| *name == text || short == text);
    found.map(|(name, _)| name.as_str())
}

/// The short forms of an enum's names: without their common beginning, in lower case and with hyphens.
fn short(names: &[String]) -> Vec<String> {
    let prefix =
        names.first().and_then(|name| name.strip_suffix("UNSPECIFIED")).unwrap_or_default();
    let short = |name: &String| {
        name.strip_prefix(prefix).unwrap_or(name).replace('_', "-").to_ascii_lowercase()
    };
    names.iter().map(short).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const PLACE: &str = "berth.v1.PlaceRequest";

    fn read(query: &str, schema: &str) -> Result<Value, String> {
        let text = |failure: Failure| failure.to_status().message().to_owned();
        let mut request = Map::new();
        let parameters = Parameters::of(query).map_err(text)?;
        parameters.set(&mut request, schema).map_err(text)?;
        Ok(Value::Object(request))
    }

    #[test]
    fn fields_are_set_by_their_types() {
        let query = "mode=assume&tieBreak=lexicographic&tieBreak.seed=7&sessionId=a%20b";
        let expected = json!({
            "mode": "PLACE_MODE_ASSUME",
            "tieBreak": {"rule": "TIE_BREAK_RULE_LEXICOGRAPHIC", "seed": 7},
            "sessionId": "a b",
        });
        assert_eq!(read(query, PLACE).unwrap(), expected);
        let query = "nodeNames=a,b&nodeNames=c";
        assert_eq!(
            read(query, "berth.v1.ExplainRequest").unwrap(),
            json!({"nodeNames": ["a", "b", "c"]})
        );
        let query = "nominate&options.victimPlacement=report&options.refusePdbViolations=true";
        let expected = json!({
            "nominate": true,
            "options": {"victimPlacement": "VICTIM_PLACEMENT_REPORT", "refusePdbViolations": true},
        });
        assert_eq!(read(query, "berth.v1.PreemptRequest").unwrap(), expected);
        assert_eq!(
            read("mode=PLACE_MODE_DRY_RUN&timeout=5&pretty", PLACE).unwrap(),
            json!({"mode": "PLACE_MODE_DRY_RUN"})
        );
    }

    #[test]
    fn what_names_no_option_is_refused() {
        let error = |query: &str| read(query, PLACE).unwrap_err();
        assert!(error("mod=assume").starts_with("`mod`: unknown parameter; there are "));
        assert!(error("mod=assume").contains("tieBreak.seed"), "{}", error("mod=assume"));
        assert!(error("mode=later").contains("is not one of unspecified, dry-run, assume"));
        assert!(error("mode=assume&mode=assume").contains("given twice"));
        assert!(error("tieBreak.seed=x").contains("is not a number"));
        for query in ["pod=x", "pod.spec=x", "tieBreak.rule.x=1", "mode.x=1", "=1", "sessionId.x=1"]
        {
            assert!(error(query).contains("unknown parameter"), "{query}: {}", error(query));
        }
        assert!(error("timeout=soon").contains("invalid duration"));
        assert!(error("timeout=-1s").contains("must not be negative"));
        assert!(error("pretty=maybe").contains("neither"));
    }

    #[test]
    fn time_limits_are_durations_or_seconds() {
        let timeout = |query: &str| Parameters::of(query).unwrap().timeout;
        assert_eq!(timeout(""), None);
        assert_eq!(timeout("timeout=5"), Some(Duration::from_secs(5)));
        assert_eq!(timeout("timeout=0.25"), Some(Duration::from_millis(250)));
        assert_eq!(timeout("timeout=1m30s"), Some(Duration::from_secs(90)));
    }
}
