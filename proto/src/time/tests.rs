use prost::Message;

use super::*;

fn read(text: &str) -> Option<i64> {
    serde_json::from_value::<Time>(serde_json::Value::from(text)).unwrap().unix_seconds()
}

#[test]
fn json_reads_any_offset_and_fraction() {
    for (text, seconds) in [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-01-02T03:04:05Z", 1_767_323_045),
        ("2026-01-02T03:04:05.999999999Z", 1_767_323_045),
        ("2026-01-02T03:04:05,5Z", 1_767_323_045),
        ("2026-01-02T04:34:05+01:30", 1_767_323_045),
        ("2026-01-01T19:04:05-08:00", 1_767_323_045),
        ("2024-02-29T23:59:59Z", 1_709_251_199),
        // Half a second before the epoch lies in second -1.
        ("1969-12-31T23:59:59.5Z", -1),
        ("9999-12-31T23:59:59Z", 253_402_300_799),
        ("0000-01-01T00:00:00Z", -62_167_219_200),
    ] {
        assert_eq!(read(text), Some(seconds), "{text}");
    }
}

#[test]
fn json_refuses_what_is_not_rfc_3339() {
    for text in [
        "",
        "2026-01-02",
        "2026-01-02T03:04Z",
        "2026-01-02 03:04:05Z",
        "2026-01-02t03:04:05Z",
        "2026-01-02T03:04:05z",
        "2026-01-02T03:04:05",
        "2026-01-02T03:04:05.Z",
        "2026-01-02T03:04:05+0100",
        "2026-01-02T03:04:05+24:00",
        "2026-01-02T03:04:05Z ",
        "2026-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-01-02T24:00:00Z",
        "2026-01-02T23:59:60Z",
        "+2026-01-02T03:04:05Z",
        "2026-01-0é:03:04:05Z",
    ] {
        let error = serde_json::from_value::<Time>(serde_json::Value::from(text)).unwrap_err();
        assert!(
            error.to_string().starts_with(&format!("`{text}` is not an RFC 3339 time")),
            "{error}"
        );
    }
    assert!(serde_json::from_str::<Time>("5").is_err());
}

#[test]
fn json_writes_utc_in_whole_seconds() {
    let time: Time = serde_json::from_str(r#""2026-01-02T04:04:05.75+01:00""#).unwrap();
    assert_eq!(serde_json::to_string(&time).unwrap(), r#""2026-01-02T03:04:05Z""#);
    assert_eq!(
        serde_json::to_string(&Time::from_unix_seconds(0)).unwrap(),
        r#""1970-01-01T00:00:00Z""#
    );
    assert!(serde_json::to_string(&Time::from_unix_seconds(253_402_300_800)).is_err());
    assert!(serde_json::to_string(&Time::from_unix_seconds(i64::MAX)).is_err());
}

#[test]
fn the_zero_time_is_not_the_epoch() {
    let zero = Time::decode(&b""[..]).unwrap();
    assert_eq!(zero, Time::default());
    assert_eq!(zero.unix_seconds(), None);
    assert_eq!(serde_json::to_string(&zero).unwrap(), "null");
    assert_eq!(serde_json::from_str::<Time>("null").unwrap(), zero);
    assert_eq!(read("0001-01-01T00:00:00Z"), None);
    assert!(zero.encode_to_vec().is_empty());

    let epoch = Time::decode(&b"\x08\x00\x10\x00"[..]).unwrap();
    assert_eq!(epoch.unix_seconds(), Some(0));
    assert_eq!(Time::from_unix_seconds(0).encode_to_vec(), b"\x08\x00");
}

#[test]
fn nanos_are_ignored() {
    let time = Time::decode(&b"\x08\x05\x10\xff\x93\xeb\xdc\x03"[..]).unwrap();
    assert_eq!(time.unix_seconds(), Some(5));
    assert_eq!(serde_json::to_string(&time).unwrap(), r#""1970-01-01T00:00:05Z""#);
}

#[test]
fn micro_time_keeps_six_digits() {
    let time: MicroTime = serde_json::from_str(r#""2026-01-02T03:04:05.123456789Z""#).unwrap();
    assert_eq!(time.unix_microseconds(), Some(1_767_323_045_123_456));
    assert_eq!(serde_json::to_string(&time).unwrap(), r#""2026-01-02T03:04:05.123456Z""#);
    assert_eq!(MicroTime::decode(&*time.encode_to_vec()).unwrap(), time);
    let before = MicroTime::from_unix_microseconds(-1);
    assert_eq!(serde_json::to_string(&before).unwrap(), r#""1969-12-31T23:59:59.999999Z""#);
    assert_eq!(serde_json::from_str::<MicroTime>("null").unwrap(), MicroTime::default());
    assert_eq!(
        serde_json::to_string(&MicroTime::from_unix_microseconds(0)).unwrap(),
        r#""1970-01-01T00:00:00.000000Z""#
    );
}

#[test]
fn no_moment_is_made_that_has_no_text() {
    let last = 253_402_300_799_999_999;
    let time = Time::try_from_unix_microseconds(last).unwrap();
    assert_eq!(time.to_string(), "9999-12-31T23:59:59Z");
    let exact = MicroTime::try_from_unix_microseconds(last).unwrap();
    assert_eq!(serde_json::to_string(&exact).unwrap(), r#""9999-12-31T23:59:59.999999Z""#);
    for beyond in [last + 1, u64::MAX] {
        assert_eq!(Time::try_from_unix_microseconds(beyond), None);
        assert_eq!(MicroTime::try_from_unix_microseconds(beyond), None);
    }
    assert_eq!(Time::default().to_string(), "");
}
