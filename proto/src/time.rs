//! `Time` and `MicroTime`: moments of Kubernetes objects (wire section 3).

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

mod rfc3339;

/// A moment in whole seconds. The default is the zero time, which means "never" and is not the epoch.
///
/// Protobuf: `{ seconds = 1 int64, nanos = 2 int32 }`; the empty message is the zero time; `nanos` are ignored.
/// JSON: RFC 3339, any offset and fraction on input, UTC in whole seconds on output; `null` is the zero time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct Time {
    #[prost(int64, optional, tag = "1")]
    seconds: Option<i64>,
    #[prost(int32, optional, tag = "2")]
    nanos: Option<i32>,
}

/// A moment in microseconds. The default is the zero time.
///
/// Protobuf: the fields of [`Time`], where `nanos` count, in whole microseconds. JSON: RFC 3339 with six fractional
/// digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct MicroTime {
    #[prost(int64, optional, tag = "1")]
    seconds: Option<i64>,
    #[prost(int32, optional, tag = "2")]
    nanos: Option<i32>,
}

/// Seconds of 0001-01-01T00:00:00Z, which upstream's clock treats as the zero time too.
const YEAR_ONE: i64 = -62_135_596_800;
/// Seconds of 10000-01-01T00:00:00Z.
const YEAR_10_000: i64 = 253_402_300_800;

impl Time {
    /// The moment `seconds` after 1970-01-01T00:00:00Z.
    pub fn from_unix_seconds(seconds: i64) -> Time {
        Time { seconds: Some(seconds), nanos: None }
    }

    /// The second of a moment in microseconds since 1970-01-01T00:00:00Z; `None` after the year 9999, of which there is no
    /// text.
    pub fn try_from_unix_microseconds(microseconds: u64) -> Option<Time> {
        let seconds = i64::try_from(microseconds / 1_000_000).ok()?;
        (seconds < YEAR_10_000).then(|| Time::from_unix_seconds(seconds))
    }

    /// Seconds since 1970-01-01T00:00:00Z; `None` for the zero time.
    pub fn unix_seconds(&self) -> Option<i64> {
        moment(self.seconds, self.nanos)
    }
}

impl MicroTime {
    /// The moment `microseconds` after 1970-01-01T00:00:00Z.
    pub fn from_unix_microseconds(microseconds: i64) -> MicroTime {
        let nanos = i32::try_from(microseconds.rem_euclid(1_000_000) * 1000).unwrap_or_default();
        MicroTime { seconds: Some(microseconds.div_euclid(1_000_000)), nanos: Some(nanos) }
    }

    /// The moment `microseconds` after 1970-01-01T00:00:00Z; `None` after the year 9999, of which there is no text.
    pub fn try_from_unix_microseconds(microseconds: u64) -> Option<MicroTime> {
        let microseconds = i64::try_from(microseconds).ok()?;
        let is_written = microseconds.div_euclid(1_000_000) < YEAR_10_000;
        is_written.then(|| MicroTime::from_unix_microseconds(microseconds))
    }

    /// Microseconds since 1970-01-01T00:00:00Z, at the limits of `i64` when out of range; `None` for the zero time.
    pub fn unix_microseconds(&self) -> Option<i64> {
        let seconds = moment(self.seconds, self.nanos)?;
        let micros = i64::from(self.nanos.unwrap_or_default().div_euclid(1000));
        Some(seconds.saturating_mul(1_000_000).saturating_add(micros))
    }
}

/// A message with any field is a moment, even when the fields are zero: the epoch is written as two zeros.
fn moment(seconds: Option<i64>, nanos: Option<i32>) -> Option<i64> {
    if seconds.is_none() && nanos.is_none() {
        return None;
    }
    Some(seconds.unwrap_or_default()).filter(|seconds| *seconds != YEAR_ONE)
}

impl fmt::Display for Time {
    /// The text of the JSON form; nothing for the zero time, and for one without a text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.unix_seconds().and_then(|seconds| rfc3339::format(seconds, None));
        f.write_str(&text.unwrap_or_default())
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write(self.unix_seconds().map(|seconds| (seconds, None)), serializer)
    }
}

impl Serialize for MicroTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let parts = self
            .unix_microseconds()
            .map(|micros| (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000)));
        write(parts.map(|(seconds, micros)| (seconds, Some(micros))), serializer)
    }
}

fn write<S: Serializer>(
    moment: Option<(i64, Option<i64>)>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let Some((seconds, micros)) = moment else {
        return serializer.serialize_unit();
    };
    match rfc3339::format(seconds, micros) {
        Some(text) => serializer.serialize_str(&text),
        None => Err(serde::ser::Error::custom(format_args!(
            "`{seconds}` seconds are outside the years 0 to 9999"
        ))),
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        let moment = deserializer.deserialize_any(TimeVisitor)?;
        Ok(moment.map_or_else(Time::default, |moment| Time::from_unix_seconds(moment.seconds)))
    }
}

impl<'de> Deserialize<'de> for MicroTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<MicroTime, D::Error> {
        let moment = deserializer.deserialize_any(TimeVisitor)?;
        Ok(moment.map_or_else(MicroTime::default, |moment| {
            MicroTime::from_unix_microseconds(
                moment.seconds * 1_000_000 + i64::from(moment.nanos / 1000),
            )
        }))
    }
}

struct TimeVisitor;

impl Visitor<'_> for TimeVisitor {
    type Value = Option<rfc3339::Moment>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an RFC 3339 time")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        match rfc3339::parse(text) {
            Some(moment) => Ok(Some(moment).filter(|moment| moment.seconds != YEAR_ONE)),
            None => Err(E::custom(format_args!("`{text}` is not an RFC 3339 time"))),
        }
    }
}

#[cfg(test)]
mod tests;
