//! Arguments of preempt: a pod, and for each candidate node the pods to evict, by uid or whole.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use berth_proto::core_v1;
use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::arguments::{BoundedPod, Typed, malformed};
use super::failure::Failure;
use super::json_object::{self, JsonObject, List, Object, Text, check_number, member};
use super::text::{comma, string};

/// `ExtenderPreemptionArgs` as sent; borrowed parts point into the body.
pub(super) struct Arguments<'a> {
    pub(super) pod: core_v1::Pod,
    /// Every node once, in the order of the request.
    pub(super) candidates: Vec<Candidate<'a>>,
}

/// A node, and the pods to evict from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate<'a> {
    pub(super) node: Cow<'a, str>,
    /// `metadata.uid` of each pod, in the order of the request: the most important first. Empty for a `null`.
    pub(super) victims: Vec<Cow<'a, str>>,
    n_pdb_violations: i64,
}

impl Candidate<'_> {
    /// Writes the candidate as a member of `NodeNameToMetaVictims`, unchanged.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        string(out, &self.node);
        out.extend_from_slice(b":{\"Pods\":[");
        let opened = out.len();
        for uid in &self.victims {
            comma(out, opened);
            out.extend_from_slice(b"{\"UID\":");
            string(out, uid);
            out.push(b'}');
        }
        let n = self.n_pdb_violations;
        out.extend_from_slice(format!("],\"NumPDBViolations\":{n}}}").as_bytes());
    }
}

/// Reads the body.
///
/// # Errors
/// [`Failure::Invalid`] with the member and the position.
pub(super) fn read(body: &[u8]) -> Result<Arguments<'_>, Failure> {
    let Written { pod, by_uid, whole } =
        json_object::read(body).map_err(|error| malformed(&error))?;
    let pod = pod.ok_or_else(|| Failure::Invalid("`Pod`: must be set".to_owned()))?;
    let candidates = if by_uid.is_empty() {
        whole
            .into_iter()
            .map(|(node, victims)| candidate(node, victims.pods, victims.n_pdb_violations))
            .collect()
    } else {
        by_uid
            .into_iter()
            .map(|(node, victims)| {
                let uids = victims.pods.into_iter().map(|pod| pod.0).collect();
                candidate(node, uids, victims.n_pdb_violations)
            })
            .collect()
    };
    Ok(Arguments { pod, candidates })
}

fn candidate<'a>(
    node: Cow<'a, str>,
    victims: Vec<Cow<'a, str>>,
    n_pdb_violations: i64,
) -> Candidate<'a> {
    Candidate { node, victims, n_pdb_violations }
}

#[derive(Default)]
struct Written<'a> {
    pod: Option<core_v1::Pod>,
    by_uid: Vec<(Cow<'a, str>, MetaVictims<'a>)>,
    whole: Vec<(Cow<'a, str>, Victims<'a>)>,
}

impl<'de> JsonObject<'de> for Written<'de> {
    fn take<A: MapAccess<'de>>(&mut self, key: &str, value: &mut A) -> Result<bool, A::Error> {
        if key.eq_ignore_ascii_case("Pod") {
            self.pod = member("Pod", value, BoundedPod)?;
        } else if key.eq_ignore_ascii_case("NodeNameToMetaVictims") {
            self.by_uid = member("NodeNameToMetaVictims", value, ByNode::default())?;
        } else if key.eq_ignore_ascii_case("NodeNameToVictims") {
            self.whole = member("NodeNameToVictims", value, ByNode::default())?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }
}

/// A `MetaVictims` of the protocol.
#[derive(Default)]
struct MetaVictims<'a> {
    pods: Vec<MetaPod<'a>>,
    n_pdb_violations: i64,
}

impl<'de> JsonObject<'de> for MetaVictims<'de> {
    fn take<A: MapAccess<'de>>(&mut self, key: &str, value: &mut A) -> Result<bool, A::Error> {
        if key.eq_ignore_ascii_case("Pods") {
            self.pods = member("Pods", value, List(Object::default()))?;
        } else if key.eq_ignore_ascii_case("NumPDBViolations") {
            self.n_pdb_violations = violations(value)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }
}

/// A `MetaPod` of the protocol.
#[derive(Default)]
struct MetaPod<'a>(Cow<'a, str>);

impl<'de> JsonObject<'de> for MetaPod<'de> {
    fn take<A: MapAccess<'de>>(&mut self, key: &str, value: &mut A) -> Result<bool, A::Error> {
        let is_uid = key.eq_ignore_ascii_case("UID");
        if is_uid {
            self.0 = member("UID", value, Text)?;
        }
        Ok(is_uid)
    }
}

/// A `Victims` of the protocol, of whose pods only the uids are read.
#[derive(Default)]
struct Victims<'a> {
    pods: Vec<Cow<'a, str>>,
    n_pdb_violations: i64,
}

impl<'de> JsonObject<'de> for Victims<'de> {
    fn take<A: MapAccess<'de>>(&mut self, key: &str, value: &mut A) -> Result<bool, A::Error> {
        if key.eq_ignore_ascii_case("Pods") {
            let pods: Option<Vec<&RawValue>> = member("Pods", value, Typed::default())?;
            for (i, pod) in pods.unwrap_or_default().into_iter().enumerate() {
                let uid = json_object::in_metadata(pod.get(), "uid");
                let uid = uid.map_err(|error| {
                    A::Error::custom(format!("`Pods[{i}].metadata.uid`: {error}"))
                })?;
                self.pods.push(uid);
            }
        } else if key.eq_ignore_ascii_case("NumPDBViolations") {
            self.n_pdb_violations = violations(value)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }
}

fn violations<'de, A: MapAccess<'de>>(value: &mut A) -> Result<i64, A::Error> {
    Ok(member("NumPDBViolations", value, Typed::<Option<i64>>::default())?.unwrap_or_default())
}

/// Seed for a map by node name; if a name occurs twice the last value counts, as in Go.
struct ByNode<T>(std::marker::PhantomData<T>);

impl<T> Default for ByNode<T> {
    fn default() -> ByNode<T> {
        ByNode(std::marker::PhantomData)
    }
}

impl<'de, T: JsonObject<'de>> DeserializeSeed<'de> for ByNode<T> {
    type Value = Vec<(Cow<'de, str>, T)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: JsonObject<'de>> Visitor<'de> for ByNode<T> {
    type Value = Vec<(Cow<'de, str>, T)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut list: Self::Value = Vec::new();
        let mut places: HashMap<Cow<'de, str>, usize> = HashMap::new();
        while let Some(node) = map.next_key_seed(Text)? {
            check_number(list.len())?;
            let victims = member(&node, &mut map, Object::<T>::default())?;
            match places.get(&node) {
                Some(at) => list[*at].1 = victims,
                None => {
                    places.insert(node.clone(), list.len());
                    list.push((node, victims));
                }
            }
        }
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = r#""Pod":{"metadata":{"name":"p"}}"#;

    fn check(members: &str, expected: &str) {
        let body = format!("{{{POD}{members}}}");
        let read = read(body.as_bytes()).unwrap();
        let mut out = Vec::new();
        for candidate in &read.candidates {
            comma(&mut out, 0);
            candidate.write(&mut out);
        }
        assert_eq!(String::from_utf8(out).unwrap(), expected, "{members}");
    }

    #[test]
    fn candidates_of_either_form_are_written_as_uids() {
        check("", "");
        check(r#","NodeNameToVictims":null,"NodeNameToMetaVictims":null"#, "");
        check(
            r#","NodeNameToVictims":null,"nodenametometavictims":{"b":{"Pods":[{"UID":"2"},{"uid":"1"}],"NumPDBViolations":3},"a":{"Pods":null}}"#,
            r#""b":{"Pods":[{"UID":"2"},{"UID":"1"}],"NumPDBViolations":3},"a":{"Pods":[],"NumPDBViolations":0}"#,
        );
        check(
            r#","NodeNameToVictims":{"a":{"Pods":[{"metadata":{"name":"x","uid":"1"},"spec":{}},null],"NumPDBViolations":1}},"NodeNameToMetaVictims":null"#,
            r#""a":{"Pods":[{"UID":"1"},{"UID":""}],"NumPDBViolations":1}"#,
        );
        // The crash of 161 and 162 concerns the scheduler only.
        check(r#","NodeNameToMetaVictims":{"a":null}"#, r#""a":{"Pods":[],"NumPDBViolations":0}"#);
        check(
            r#","NodeNameToMetaVictims":{"a":{"Pods":[{"UID":"1"}]},"a":{"Pods":[{"UID":"2"}]}}"#,
            r#""a":{"Pods":[{"UID":"2"}],"NumPDBViolations":0}"#,
        );
    }

    #[test]
    fn mistakes_name_the_member() {
        let check = |members: &str, expected: &str| {
            let body = format!("{{{POD},{members}}}");
            let Err(Failure::Invalid(text)) = read(body.as_bytes()) else { panic!("{members}") };
            assert!(text.contains(expected), "{text}");
        };
        check(r#""NodeNameToMetaVictims":[]"#, "`NodeNameToMetaVictims`: ");
        check(r#""NodeNameToMetaVictims":{"a":{"Pods":[7]}}"#, "`a`: `Pods`: `[0]`: ");
        check(r#""NodeNameToMetaVictims":{"a":{"NumPDBViolations":1.5}}"#, "`NumPDBViolations`: ");
        check(r#""NodeNameToVictims":{"a":{"Pods":[{"metadata":7}]}}"#, "`Pods[0].metadata.uid`: ");
    }
}
