//! The MicroTime format, with exactly six digits after the second (recording 11).

use serde_json::Value;

use crate::field;
use crate::resource::Resource;

const LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";

/// Checks the micro times of a Lease or an Event; the error has the text of the real server.
pub(crate) fn check(resource: &Resource, object: &Value) -> Result<(), String> {
    let paths: &[&str] = match resource.kind {
        "Lease" => &["spec.acquireTime", "spec.renewTime"],
        "Event" => &["eventTime", "series.lastObservedTime"],
        _ => return Ok(()),
    };
    for path in paths {
        match field::at(object, path) {
            Value::Null => {}
            Value::String(text) => check_text(text)?,
            other => return Err(format!("parsing time {other} as \"{LAYOUT}\"")),
        }
    }
    Ok(())
}

fn check_text(text: &str) -> Result<(), String> {
    let wrong = |rest: &str, part: &str| {
        format!("parsing time \"{text}\" as \"{LAYOUT}\": cannot parse \"{rest}\" as \"{part}\"")
    };
    let (seconds, rest) = match (text.get(..19), text.get(19..)) {
        (Some(seconds), Some(rest)) if is_shaped(seconds, "dddd-dd-ddTdd:dd:dd") => (seconds, rest),
        _ => return Err(wrong(text, "2006")),
    };
    let (Some(fraction), Some(zone)) = (rest.get(..7), rest.get(7..)) else {
        return Err(wrong(rest, ".000000"));
    };
    if !is_shaped(fraction, ".dddddd") {
        return Err(wrong(rest, ".000000"));
    }
    if zone != "Z" && !is_shaped(zone, "+dd:dd") && !is_shaped(zone, "-dd:dd") {
        return Err(wrong(zone, "Z07:00"));
    }
    let whole = format!("{seconds}{zone}");
    whole.parse::<jiff::Timestamp>().map(drop).map_err(|_| wrong(seconds, "2006-01-02T15:04:05"))
}

/// Whether `text` matches the shape, in which `d` stands for a digit and other characters for themselves.
fn is_shaped(text: &str, shape: &str) -> bool {
    text.len() == shape.len()
        && text.bytes().zip(shape.bytes()).all(|(byte, wanted)| match wanted {
            b'd' => byte.is_ascii_digit(),
            other => byte == other,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_digits_and_nothing_else() {
        assert_eq!(check_text("2026-11-21T07:40:00.000000Z"), Ok(()));
        assert_eq!(check_text("2026-11-21T07:40:00.123456+01:00"), Ok(()));
        for (text, end) in [
            ("2026-11-21T07:40:21Z", "cannot parse \"Z\" as \".000000\""),
            ("2026-11-21T07:40:30.5Z", "cannot parse \".5Z\" as \".000000\""),
            ("yesterday", "cannot parse \"yesterday\" as \"2006\""),
            ("2026-13-21T07:40:00.000000Z", "as \"2006-01-02T15:04:05\""),
            ("2026-11-21T07:40:00.0000000Z", "cannot parse \"0Z\" as \"Z07:00\""),
        ] {
            let error = check_text(text).unwrap_err();
            assert!(error.ends_with(end), "{error}");
        }
    }
}
