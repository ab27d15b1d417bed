//! Values of expressions at run time. Copying one never copies its contents.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::address::{Address, Prefix};
use super::amount::ExactAmount;
use super::semver::Semver;
use super::time::Timestamp;
use super::url::Url;

/// A value of an expression.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
    /// Nanoseconds.
    Duration(i64),
    Timestamp(Timestamp),
    List(Arc<[Value]>),
    Map(Arc<Map>),
    Optional(Option<Arc<Value>>),
    Type(&'static str),
    Quantity(ExactAmount),
    Semver(Arc<Semver>),
    Ip(Address),
    Cidr(Prefix),
    Url(Arc<Url>),
    /// A named format: its position in the table of formats.
    Format(usize),
}

/// A key of a map. Integers of both kinds are different keys; lookups find either.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Bool(bool),
    Int(i64),
    Uint(u64),
    String(Arc<str>),
}

/// A map, and the value of absent keys if every lookup succeeds (S-DRA-111).
#[derive(Clone, Debug, Default)]
pub(crate) struct Map {
    pub(crate) entries: BTreeMap<Key, Value>,
    pub(crate) absent: Option<Value>,
}

impl Value {
    pub(crate) fn string(text: impl Into<Arc<str>>) -> Value {
        Value::String(text.into())
    }

    pub(crate) fn list(values: impl Into<Arc<[Value]>>) -> Value {
        Value::List(values.into())
    }

    pub(crate) fn map(entries: BTreeMap<Key, Value>) -> Value {
        Value::Map(Arc::new(Map { entries, absent: None }))
    }

    pub(crate) fn some(value: Value) -> Value {
        Value::Optional(Some(Arc::new(value)))
    }

    /// The name of the value's type, as `type()` and errors show it.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "null_type",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Uint(_) => "uint",
            Value::Double(_) => "double",
            Value::String(_) => "string",
            Value::Bytes(_) => "bytes",
            Value::Duration(_) => "google.protobuf.Duration",
            Value::Timestamp(_) => "google.protobuf.Timestamp",
            Value::List(_) => "list",
            Value::Map(_) => "map",
            Value::Optional(_) => "optional_type",
            Value::Type(_) => "type",
            Value::Quantity(_) => "kubernetes.Quantity",
            Value::Semver(_) => "kubernetes.Semver",
            Value::Ip(_) => "net.IP",
            Value::Cidr(_) => "net.CIDR",
            Value::Url(_) => "kubernetes.URL",
            Value::Format(_) => "kubernetes.NamedFormat",
        }
    }

    /// The value as a key of a map literal; `None` if it cannot be one.
    pub(crate) fn to_key(&self) -> Option<Key> {
        match self {
            Value::Bool(value) => Some(Key::Bool(*value)),
            Value::Int(value) => Some(Key::Int(*value)),
            Value::Uint(value) => Some(Key::Uint(*value)),
            Value::String(value) => Some(Key::String(Arc::clone(value))),
            _ => None,
        }
    }

    /// The text of a value where errors name it.
    pub(crate) fn describe(&self) -> String {
        match self {
            Value::Bool(value) => value.to_string(),
            Value::Int(value) => value.to_string(),
            Value::Uint(value) => value.to_string(),
            Value::Double(value) => value.to_string(),
            Value::String(value) => value.to_string(),
            other => other.type_name().to_owned(),
        }
    }
}

impl Key {
    pub(crate) fn to_value(&self) -> Value {
        match self {
            Key::Bool(value) => Value::Bool(*value),
            Key::Int(value) => Value::Int(*value),
            Key::Uint(value) => Value::Uint(*value),
            Key::String(value) => Value::String(Arc::clone(value)),
        }
    }
}

impl Map {
    /// The value of a key among the entries, by CEL's equality of numbers.
    pub(crate) fn find(&self, key: &Value) -> Option<&Value> {
        match key {
            Value::Int(int) => self
                .entries
                .get(&Key::Int(*int))
                .or_else(|| self.entries.get(&Key::Uint(u64::try_from(*int).ok()?))),
            Value::Uint(uint) => self
                .entries
                .get(&Key::Uint(*uint))
                .or_else(|| self.entries.get(&Key::Int(i64::try_from(*uint).ok()?))),
            Value::Double(double) => self.find(&whole(*double)?),
            other => self.entries.get(&other.to_key()?),
        }
    }

    /// The value of a key, or the default of this map.
    pub(crate) fn get(&self, key: &Value) -> Option<&Value> {
        self.find(key).or(self.absent.as_ref())
    }

    /// [`Map::get`] with a key that needs no conversion.
    pub(crate) fn get_exact(&self, key: &Key) -> Option<&Value> {
        self.entries.get(key).or(self.absent.as_ref())
    }
}

/// The integer that equals a number; `None` if there is none.
pub(crate) fn whole(double: f64) -> Option<Value> {
    const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
    if double.trunc() != double {
        return None;
    }
    if (-TWO_TO_63..TWO_TO_63).contains(&double) {
        return Some(Value::Int(double as i64));
    }
    (0.0..2.0 * TWO_TO_63).contains(&double).then_some(Value::Uint(double as u64))
}
