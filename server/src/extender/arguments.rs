//! Arguments of filter and prioritize: a pod, and nodes by name or whole.

use std::borrow::Cow;

use berth_proto::core_v1;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Error as _, MapAccess};
use serde_json::value::RawValue;

use super::failure::Failure;
use super::json_object::{self, JsonObject, List, Object, Text, member};
use crate::admission::LoadLimits;
use crate::escape;

/// `ExtenderArgs` as sent; borrowed parts point into the body.
#[derive(Default)]
pub(super) struct Arguments<'a> {
    pub(super) pod: core_v1::Pod,
    pub(super) nodes: Nodes<'a>,
}

/// The nodes of a request, in the form in which the response has to name them.
pub(super) enum Nodes<'a> {
    /// Names in `NodeNames`: the caller is nodeCacheCapable.
    Named(Vec<Cow<'a, str>>),
    /// Objects in `Nodes`: each with its name and its unparsed JSON.
    Whole(Vec<(Cow<'a, str>, &'a str)>),
}

impl Default for Nodes<'_> {
    fn default() -> Self {
        Nodes::Named(Vec::new())
    }
}

impl Nodes<'_> {
    /// Names of the nodes, in the order of the request.
    pub(super) fn names(&self) -> Vec<&str> {
        match self {
            Nodes::Named(names) => names.iter().map(|name| &**name).collect(),
            Nodes::Whole(nodes) => nodes.iter().map(|(name, _)| &**name).collect(),
        }
    }
}

/// Reads the body.
///
/// # Errors
/// [`Failure::Invalid`] with the member and the position, or the item whose name is missing or not a string.
pub(super) fn read(body: &[u8]) -> Result<Arguments<'_>, Failure> {
    let Written { pod, nodes, names } =
        json_object::read(body).map_err(|error| malformed(&error))?;
    let pod = pod.ok_or_else(|| Failure::Invalid("`Pod`: must be set".to_owned()))?;
    // Names take precedence, as in kube-scheduler's reading of a response; whole nodes count if there are no names.
    let nodes = match nodes {
        Some(whole) if names.is_empty() => Nodes::Whole(with_names(whole)?),
        Some(_) | None => Nodes::Named(names),
    };
    Ok(Arguments { pod, nodes })
}

/// Failure for a body that cannot be parsed.
pub(super) fn malformed(error: &serde_json::Error) -> Failure {
    Failure::Invalid(escape::printable(&format!("the body cannot be read: {error}")).into_owned())
}

/// Returns each node with its name.
fn with_names(whole: Vec<&RawValue>) -> Result<Vec<(Cow<'_, str>, &str)>, Failure> {
    let named = whole.into_iter().enumerate().map(|(i, raw)| {
        let name = json_object::in_metadata(raw.get(), "name").map_err(|error| {
            let text = format!("`Nodes.items[{i}].metadata.name`: {error}");
            Failure::Invalid(escape::printable(&text).into_owned())
        })?;
        Ok((name, raw.get()))
    });
    named.collect()
}

#[derive(Default)]
struct Written<'a> {
    pod: Option<core_v1::Pod>,
    nodes: Option<Vec<&'a RawValue>>,
    names: Vec<Cow<'a, str>>,
}

impl<'de> JsonObject<'de> for Written<'de> {
    fn take<A: MapAccess<'de>>(&mut self, key: &str, value: &mut A) -> Result<bool, A::Error> {
        if key.eq_ignore_ascii_case("Pod") {
            self.pod = member("Pod", value, BoundedPod)?;
        } else if key.eq_ignore_ascii_case("NodeNames") {
            self.names = member("NodeNames", value, List(Text))?;
        } else if key.eq_ignore_ascii_case("Nodes") {
            self.nodes = member("Nodes", value, Optional(Object::<Items<'de>>::default()))?
                .map(|items| items.0);
        } else {
            return Ok(false);
        }
        Ok(true)
    }
}

/// The `items` of a NodeList.
#[derive(Default)]
struct Items<'a>(Vec<&'a RawValue>);

impl<'de> JsonObject<'de> for Items<'de> {
    fn take<A: MapAccess<'de>>(&mut self, key: &str, value: &mut A) -> Result<bool, A::Error> {
        let is_items = key.eq_ignore_ascii_case("items");
        if is_items {
            self.0 = member("items", value, List(Typed::<&RawValue>::default()))?;
        }
        Ok(is_items)
    }
}

/// Seed for a pod, which is read only if it is no larger than an API server would take, and has no more parts than a pod
/// may have: 2 bytes of text can become a thousand in memory.
#[derive(Copy, Clone)]
pub(super) struct BoundedPod;

impl<'de> DeserializeSeed<'de> for BoundedPod {
    type Value = Option<core_v1::Pod>;

    fn deserialize<D: serde::Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<Option<core_v1::Pod>, D::Error> {
        let limits = LoadLimits::default();
        let text = <&RawValue>::deserialize(deserializer)?.get();
        if text.len() > limits.max_object_bytes {
            let limit = limits.max_object_bytes;
            return Err(D::Error::custom(format!("has more than {limit} bytes")));
        }
        // Braces in texts count, too: a pod has few.
        if memchr::memchr_iter(b'{', text.as_bytes()).count() > limits.max_object_items {
            let limit = limits.max_object_items;
            return Err(D::Error::custom(format!("has more than {limit} parts")));
        }
        serde_json::from_str(text).map_err(D::Error::custom)
    }
}

/// Seed for a value that implements `Deserialize`.
pub(super) struct Typed<T>(std::marker::PhantomData<T>);

impl<T> Default for Typed<T> {
    fn default() -> Typed<T> {
        Typed(std::marker::PhantomData)
    }
}

impl<T> Copy for Typed<T> {}

impl<T> Clone for Typed<T> {
    fn clone(&self) -> Typed<T> {
        *self
    }
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for Typed<T> {
    type Value = T;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        T::deserialize(deserializer)
    }
}

/// Seed for a value that may be `null`, which is read as `None`.
struct Optional<S>(S);

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Optional<S> {
    type Value = Option<S::Value>;

    fn deserialize<D: serde::Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<Option<S::Value>, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de, S: DeserializeSeed<'de>> serde::de::Visitor<'de> for Optional<S> {
    type Value = Option<S::Value>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object or null")
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: serde::Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<Self::Value, D::Error> {
        self.0.deserialize(deserializer).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = r#""Pod":{"metadata":{"name":"p"}}"#;

    fn names(body: &str) -> (bool, Vec<String>) {
        let read = read(body.as_bytes()).unwrap();
        let is_whole = matches!(read.nodes, Nodes::Whole(_));
        (is_whole, read.nodes.names().into_iter().map(str::to_owned).collect())
    }

    #[test]
    fn either_form_is_read_in_any_case() {
        let check = |members: &str, is_whole: bool, expected: &[&str]| {
            let found = names(&format!("{{{POD}{members}}}"));
            assert_eq!(
                found,
                (is_whole, expected.iter().map(|s| (*s).to_owned()).collect()),
                "{members}"
            );
        };
        check("", false, &[]);
        check(r#","Nodes":null,"NodeNames":null"#, false, &[]);
        check(r#","Nodes":null,"NodeNames":[]"#, false, &[]);
        check(r#","NodeNames":["a","b","a"],"Nodes":null"#, false, &["a", "b", "a"]);
        check(r#","nodenames":["a\u0062",null]"#, false, &["ab", ""]);
        check(
            r#","Nodes":{"metadata":{},"items":[{"metadata":{"name":"a"}},null]}"#,
            true,
            &["a", ""],
        );
        check(r#","NODES":{"items":null},"Extra":{"a":[1]}"#, true, &[]);
        check(r#","Nodes":{"items":[{"metadata":{"name":"a"}}]},"NodeNames":[]"#, true, &["a"]);
        check(r#","Nodes":{"items":[{"metadata":{"name":"a"}}]},"NodeNames":["b"]"#, false, &["b"]);
    }

    #[test]
    fn whole_nodes_stay_as_they_came() {
        let raw = r#"{ "metadata" : {"name":"a"},"x":[1 ,2.50e1,"\u0061"] }"#;
        let body = format!(r#"{{{POD},"Nodes":{{"items":[ {raw} ]}}}}"#);
        let read = read(body.as_bytes()).unwrap();
        let Nodes::Whole(nodes) = read.nodes else { panic!("names") };
        assert_eq!(nodes, [("a".into(), raw)]);
    }

    #[test]
    fn mistakes_name_the_member() {
        let check = |body: &str, expected: &str| {
            let Err(Failure::Invalid(text)) = read(body.as_bytes()) else { panic!("{body}") };
            assert!(text.contains(expected), "{text}");
        };
        check("", "EOF");
        check("null", "`Pod`: must be set");
        check(r#"{"Pod":null}"#, "`Pod`: must be set");
        check("[]", "expected an object");
        check(r#"{"Pod":7}"#, "`Pod`: ");
        check(&format!(r#"{{{POD},"NodeNames":["a",7]}}"#), "`NodeNames`: `[1]`: ");
        check(&format!(r#"{{{POD},"Nodes":{{"items":7}}}}"#), "`Nodes`: `items`: ");
        check(
            &format!(r#"{{{POD},"Nodes":{{"items":[{{"metadata":[]}}]}}}}"#),
            "`Nodes.items[0].metadata.name`: ",
        );
        check(&format!("{{{POD}}} x"), "trailing characters");
        check(&format!(r#"{{{POD},"Deep":{}"#, "[".repeat(1 << 20)), "EOF");
        check(&format!(r#"{{"Pod":{}"#, r#"{"spec":"#.repeat(1 << 16)), "`Pod`: ");
    }
}
