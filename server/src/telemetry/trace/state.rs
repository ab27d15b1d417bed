//! State: the `tracestate` header, which belongs to the vendors of tracing systems. Berth passes it on unchanged, or
//! drops it if it is malformed.

use http::HeaderMap;

use super::TRACESTATE;

/// Most members that a list may have.
const MAX_MEMBERS: usize = 32;
/// Longest list that is passed on. The recommendation asks for at least 512 characters.
const MAX_LENGTH: usize = 2_048;

/// All `tracestate` headers as one list; `None` if there is none or it is malformed.
pub(super) fn of(headers: &HeaderMap) -> Option<Box<str>> {
    let mut members: Vec<&str> = Vec::new();
    for value in headers.get_all(&TRACESTATE) {
        let list = value.to_str().ok()?.split(',').map(|member| member.trim_matches([' ', '\t']));
        members.extend(list.filter(|member| !member.is_empty()));
    }
    let is_readable = members.len() <= MAX_MEMBERS && members.iter().all(|it| is_member(it));
    if members.is_empty() || !is_readable {
        return None;
    }
    let key = |member: &&str| member.split('=').next().map(str::to_owned);
    let mut keys: Vec<_> = members.iter().map(key).collect();
    keys.sort();
    keys.dedup();
    let list = members.join(",");
    (keys.len() == members.len() && list.len() <= MAX_LENGTH).then(|| list.into())
}

fn is_member(member: &str) -> bool {
    member.split_once('=').is_some_and(|(key, value)| is_key(key) && is_value(value))
}

/// Whether `key` has the form `simple-key` or `tenant@system`.
fn is_key(key: &str) -> bool {
    let begins_lower = |part: &str| part.starts_with(|c: char| c.is_ascii_lowercase());
    match key.split_once('@') {
        None => begins_lower(key) && is_key_part(key, 256),
        Some((tenant, system)) => {
            let tenant_begins =
                tenant.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
            tenant_begins
                && is_key_part(tenant, 241)
                && begins_lower(system)
                && is_key_part(system, 14)
        }
    }
}

fn is_key_part(part: &str, max: usize) -> bool {
    part.len() <= max
        && part.bytes().all(|c| matches!(c, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'*' | b'/'))
}

/// Whether `value` is printable, without commas and equal signs, and at most 256 characters long.
fn is_value(value: &str) -> bool {
    (1..=256).contains(&value.len())
        && value.bytes().all(|c| matches!(c, b' '..=b'~') && c != b',' && c != b'=')
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn read(values: &[&str]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(&TRACESTATE, HeaderValue::from_str(value).unwrap());
        }
        of(&headers).map(String::from)
    }

    #[test]
    fn headers_are_joined_in_order() {
        assert_eq!(
            read(&["rojo=00f067aa0ba902b7, congo=t61rcWkgMzE"]).as_deref(),
            Some("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE")
        );
        assert_eq!(read(&["b=1,,", "0tenant@sys=2"]).as_deref(), Some("b=1,0tenant@sys=2"));
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[""]), None);
    }

    #[test]
    fn a_malformed_member_drops_the_whole_list() {
        let long = format!("a={}", "x".repeat(257));
        let many: Vec<String> = (0..33).map(|i| format!("k{i}=v")).collect();
        for bad in [
            "a",
            "A=1",
            "1=1",
            "a=1,a=2",
            "a=b=c",
            "a@B=1",
            "@a=1",
            "a=",
            "a=ä",
            &long,
            &many.join(","),
        ] {
            let value = HeaderValue::from_bytes(bad.as_bytes()).unwrap();
            let mut headers = HeaderMap::new();
            headers.insert(&TRACESTATE, value);
            assert_eq!(of(&headers), None, "{bad}");
        }
    }
}
