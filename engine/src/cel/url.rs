//! Absolute URLs and absolute paths, taken apart as Go does (S-DRA-115).

/// A URL in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) scheme: String,
    /// Host with port, without user.
    pub(crate) host: String,
    pub(crate) escaped_path: String,
    query: String,
    fragment: String,
    opaque: String,
    user: String,
}

impl Url {
    /// Reads an absolute URL or an absolute path.
    pub(crate) fn parse(text: &str) -> Option<Url> {
        if text.is_empty() || text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
            return None;
        }
        let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
        let (scheme, rest) = split_scheme(text)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut url = Url {
            scheme: scheme.to_ascii_lowercase(),
            host: String::new(),
            escaped_path: String::new(),
            query: query.to_owned(),
            fragment: fragment.to_owned(),
            opaque: String::new(),
            user: String::new(),
        };
        if !rest.starts_with('/') {
            url.opaque = rest.to_owned();
            return (!scheme.is_empty()).then_some(url);
        }
        let mut path = rest;
        if let Some(after) = rest.strip_prefix("//")
            && (!scheme.is_empty() || !rest.starts_with("///"))
        {
            let end = after.find('/').unwrap_or(after.len());
            let (authority, after) = after.split_at(end);
            let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
            url.host = checked_host(host)?;
            user.clone_into(&mut url.user);
            path = after;
        }
        is_escaped(path).then_some(())?;
        url.escaped_path = escape_path(path);
        Some(url)
    }

    /// The host without port and brackets.
    pub(crate) fn hostname(&self) -> &str {
        let host = self.host.strip_suffix(self.port()).unwrap_or(&self.host);
        let host =
            if self.port().is_empty() { host } else { host.strip_suffix(':').unwrap_or(host) };
        let host = if host.ends_with(':') && !host.ends_with("]:") || host.ends_with("]:") {
            host.trim_end_matches(':')
        } else {
            host
        };
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
    }

    /// The port, empty without one.
    pub(crate) fn port(&self) -> &str {
        match self.host.rfind(':') {
            Some(at) if !self.host[at..].contains(']') => &self.host[at + 1..],
            _ => "",
        }
    }

    /// The parameters of the query in order, unescaped; those that are malformed are left out.
    pub(crate) fn parameters(&self) -> Vec<(String, String)> {
        let pairs = self.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';'));
        pairs
            .filter_map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                Some((unescape(name)?, unescape(value)?))
            })
            .collect()
    }
}

fn split_scheme(text: &str) -> Option<(&str, &str)> {
    for (at, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return None,
            ':' => return Some((&text[..at], &text[at + 1..])),
            _ => break,
        }
    }
    text.starts_with('/').then_some(("", text))
}

fn checked_host(host: &str) -> Option<String> {
    let port = match host.rfind(']') {
        Some(end) if host.starts_with('[') => &host[end + 1..],
        Some(_) => return None,
        None if host.starts_with('[') => return None,
        None => host.rfind(':').map_or("", |at| &host[at..]),
    };
    let digits = port.strip_prefix(':').unwrap_or(port);
    let is_port = (port.is_empty() || port.starts_with(':'))
        && digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_allowed = |byte: u8| !b" \"\\^`{|}<>".contains(&byte);
    (is_port && host.bytes().all(is_allowed)).then(|| host.to_owned())
}

/// Whether each percent sign starts an escape.
fn is_escaped(text: &str) -> bool {
    text.match_indices('%').all(|(at, _)| {
        text.as_bytes().get(at + 1..at + 3).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit))
    })
}

/// Escapes what may not stand in a path, and leaves escapes as they are.
fn escape_path(path: &str) -> String {
    let mut escaped = String::new();
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@%!'()*[]".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

fn unescape(text: &str) -> Option<String> {
    is_escaped(text).then_some(())?;
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit =
                    |byte: u8| char::from(byte).to_digit(16).and_then(|d| u8::try_from(d).ok());
                digit(rest.next()?)? * 16 + digit(rest.next()?)?
            }
            byte => byte,
        });
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::Url;

    /// S-DRA-115: the parts of a URL.
    #[test]
    fn parts() {
        let url = Url::parse("https://user@Example.com:80/a%20b/c d?x=1&x=2+3&y#z").unwrap();
        assert_eq!((url.scheme.as_str(), url.host.as_str()), ("https", "Example.com:80"));
        assert_eq!((url.hostname(), url.port()), ("Example.com", "80"));
        assert_eq!(url.escaped_path, "/a%20b/c%20d");
        let parameters = url.parameters();
        assert_eq!(parameters[1], ("x".to_owned(), "2 3".to_owned()));
        assert_eq!(Url::parse("http://[::1]:8080/").unwrap().hostname(), "::1");
        assert_eq!(Url::parse("http://[::1]/").unwrap().port(), "");
        assert!(Url::parse("/path").is_some());
        for broken in ["", "path", ":x", "http://a:b/", "http://[::1/", "http://h/%zz"] {
            assert!(Url::parse(broken).is_none(), "{broken}");
        }
    }
}
