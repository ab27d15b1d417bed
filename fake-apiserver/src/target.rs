//! Target of a request: the path's resource, namespace, name and subresource, and the query's parameters.

use crate::resource::{self, Resource};
use crate::status::Refusal;

/// A path under `/api/v1` or `/apis/GROUP/VERSION` that names a resource.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) resource: &'static Resource,
    /// Namespace; empty for all namespaces and for resources without one.
    pub(crate) namespace: String,
    /// Name of the object; `None` for the collection.
    pub(crate) name: Option<String>,
    /// Subresource, for example `binding`.
    pub(crate) subresource: Option<String>,
}

impl Target {
    pub(crate) fn parse(path: &str) -> Result<Target, Refusal> {
        let decoded: Vec<String> = path.split('/').skip(1).map(decode).collect();
        let parts: Vec<&str> = decoded.iter().map(String::as_str).collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return Err(Refusal::no_such_path()),
        };
        let (namespace, rest) = match rest {
            // `namespaces/NAME/status` is a subresource of the namespace; any other word is a resource in it.
            ["namespaces", _, "status" | "finalize"] | ["namespaces"] | ["namespaces", _] => {
                ("", rest)
            }
            ["namespaces", namespace, rest @ ..] => (*namespace, rest),
            _ => ("", rest),
        };
        let (plural, name, subresource) = match rest {
            [plural] => (*plural, None, None),
            [plural, name] => (*plural, Some(*name), None),
            [plural, name, subresource] => (*plural, Some(*name), Some(*subresource)),
            _ => return Err(Refusal::no_such_path()),
        };
        // The older form of `pods/NAME/binding`, in which only the body names the pod.
        let (plural, subresource) = match (plural, name) {
            ("bindings", None) => ("pods", Some("binding")),
            _ => (plural, subresource),
        };
        let resource =
            resource::by_path(group, version, plural).ok_or_else(Refusal::no_such_path)?;
        let is_served = subresource.is_none_or(|word| resource.subresources.contains(&word));
        let misses_namespace = resource.namespaced && namespace.is_empty() && name.is_some();
        if !is_served || misses_namespace || (!resource.namespaced && !namespace.is_empty()) {
            return Err(Refusal::no_such_path());
        }
        Ok(Target {
            resource,
            namespace: namespace.into(),
            name: name.map(Into::into),
            subresource: subresource.map(Into::into),
        })
    }
}

/// The parameters of a query, decoded.
#[derive(Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Query {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(&name.replace('+', " ")), decode(&value.replace('+', " ")))
        });
        Query(pairs.collect())
    }

    /// First value of a parameter; empty if absent.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    /// Whether a parameter is `true` or `1`.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        matches!(self.get(name), "true" | "1")
    }
}

/// Decodes escapes such as `%2F`; invalid escapes stay unchanged.
fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escaped = (bytes[at] == b'%')
            .then(|| text.get(at + 1..at + 3))
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        out.push(escaped.unwrap_or(bytes[at]));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(path: &str) -> String {
        match Target::parse(path) {
            Ok(target) => format!(
                "{} {} {} {}",
                target.resource.qualified(),
                target.namespace,
                target.name.unwrap_or_default(),
                target.subresource.unwrap_or_default()
            ),
            Err(refusal) => refusal.code.to_string(),
        }
    }

    #[test]
    fn paths_name_what_they_are_about() {
        for (path, expected) in [
            ("/api/v1/pods", "pods   "),
            ("/api/v1/namespaces/lab/pods", "pods lab  "),
            ("/api/v1/namespaces/lab/pods/p/binding", "pods lab p binding"),
            ("/api/v1/namespaces/lab/bindings", "pods lab  binding"),
            ("/api/v1/namespaces/lab", "namespaces  lab "),
            ("/api/v1/namespaces/lab/status", "namespaces  lab status"),
            ("/api/v1/nodes/a%2Fb", "nodes  a/b "),
            ("/apis/apps/v1/namespaces/x/replicasets/r", "replicasets.apps x r "),
            ("/apis/apps/v2/replicasets", "404"),
            ("/api/v1/widgets", "404"),
            ("/api/v1/pods/p", "404"),
            ("/api/v1/namespaces/lab/nodes", "404"),
            ("/api/v1/namespaces/lab/pods/p/exec", "404"),
            ("/", "404"),
        ] {
            assert_eq!(shown(path), expected, "{path}");
        }
    }

    #[test]
    fn queries_are_decoded() {
        let query =
            Query::parse("watch=1&fieldSelector=spec.nodeName%3D&labelSelector=a+in+(b)&bad=%zz");
        assert!(query.is_set("watch") && !query.is_set("other"));
        assert_eq!(query.get("fieldSelector"), "spec.nodeName=");
        assert_eq!(query.get("labelSelector"), "a in (b)");
        assert_eq!(query.get("bad"), "%zz");
    }
}
