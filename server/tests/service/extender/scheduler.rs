//! The scheduler's side of the protocol: how kube-scheduler v1.36.2 reads a response. The recordings prove it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::client::Reply;

/// A call, as far as the meaning of its response depends on it.
pub(crate) struct Call<'a> {
    pub(crate) verb: &'a str,
    pub(crate) url: &'a str,
    pub(crate) is_capable: bool,
    pub(crate) is_ignorable: bool,
    pub(crate) timeout_s: f64,
    pub(crate) request: &'a Value,
    /// Whether a pod of this uid runs on this node, as the scheduler knows it.
    pub(crate) runs_on: &'a dyn Fn(&str, &str) -> bool,
}

/// The content of a response that kube-scheduler uses.
#[derive(Debug, PartialEq)]
pub(crate) enum Taken {
    /// Nodes that are left, and the reasons of others: where evicting might help, and where it cannot.
    Kept {
        names: Vec<String>,
        failed: BTreeMap<String, String>,
        unresolvable: BTreeMap<String, String>,
    },
    /// The sum of the scores of each host.
    Scores(BTreeMap<String, i64>),
    /// Candidates that are left, and the uids to evict.
    Candidates(BTreeMap<String, Vec<String>>),
    Bound,
    /// The scheduler follows a redirect.
    Redirected,
}

/// The effect of a response that kube-scheduler cannot use.
#[derive(Debug, PartialEq)]
pub(crate) enum Trouble {
    /// The call fails with this text.
    Error(String),
    /// The process ends.
    Crash,
}

fn error<T>(text: impl Into<String>) -> Result<T, Trouble> {
    Err(Trouble::Error(text.into()))
}

pub(crate) fn take(call: &Call<'_>, reply: &Reply, after_s: f64) -> Result<Taken, Trouble> {
    if after_s > call.timeout_s {
        return error("context deadline exceeded");
    }
    match reply.status {
        200 => {}
        307 => return Ok(Taken::Redirected),
        status => {
            let Call { verb, url, .. } = call;
            return error(format!("failed {verb} with extender at URL {url}, code {status}"));
        }
    }
    let json = first_value(&reply.body)?;
    match call.verb {
        "filter" => kept(call, &json),
        "prioritize" => scores(&json),
        "preempt" => candidates(call, &json),
        "bind" => match text(&json, "Error")?.as_str() {
            "" => Ok(Taken::Bound),
            text => error(text),
        },
        other => panic!("there is no verb {other}"),
    }
}

/// Reads the first JSON value; the rest of the body is ignored.
fn first_value(body: &[u8]) -> Result<Value, Trouble> {
    let Some(first) = body.iter().find(|byte| !byte.is_ascii_whitespace()) else {
        return error("EOF");
    };
    if !b"{[\"-tfn0123456789".contains(first) {
        let first = *first as char;
        return error(format!("invalid character '{first}' looking for beginning of value"));
    }
    match serde_json::Deserializer::from_slice(body).into_iter().next() {
        Some(Ok(value)) => Ok(value),
        _ => error("invalid JSON"),
    }
}

/// A member by its name in any letter case; the last of several counts, and `null` counts as absent.
fn member<'a>(json: &'a Value, name: &str) -> Result<Option<&'a Value>, Trouble> {
    match json {
        Value::Null => Ok(None),
        Value::Object(members) => {
            let found = members.iter().rfind(|(key, _)| key.eq_ignore_ascii_case(name));
            Ok(found.map(|(_, value)| value).filter(|value| !value.is_null()))
        }
        _ => error("json: cannot unmarshal"),
    }
}

fn text(json: &Value, name: &str) -> Result<String, Trouble> {
    match member(json, name)? {
        None => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => error("json: cannot unmarshal"),
    }
}

fn map(json: &Value, name: &str) -> Result<BTreeMap<String, String>, Trouble> {
    let Some(found) = member(json, name)? else { return Ok(BTreeMap::new()) };
    let Value::Object(members) = found else { return error("json: cannot unmarshal") };
    members
        .iter()
        .map(|(key, value)| match value {
            Value::String(text) => Ok((key.clone(), text.clone())),
            Value::Null => Ok((key.clone(), String::new())),
            _ => error("json: cannot unmarshal"),
        })
        .collect()
}

fn kept(call: &Call<'_>, json: &Value) -> Result<Taken, Trouble> {
    let (names, nodes) = (member(json, "NodeNames")?, member(json, "Nodes")?);
    let names = match names {
        None => None,
        Some(Value::Array(names)) => Some(names),
        Some(_) => return error("json: cannot unmarshal"),
    };
    let (failed, unresolvable) =
        (map(json, "FailedNodes")?, map(json, "FailedAndUnresolvableNodes")?);
    let message = text(json, "Error")?;
    if !message.is_empty() {
        return error(message);
    }
    let requested: BTreeSet<&str> = requested_nodes(call.request);
    let names: Vec<String> = match (names.filter(|_| call.is_capable), nodes) {
        (Some(names), _) => {
            let names = names.iter().map(|name| name.as_str().unwrap_or_default().to_owned());
            let names: Vec<String> = names.collect();
            if let Some(ghost) = names.iter().find(|name| !requested.contains(name.as_str())) {
                let url = call.url.rsplit_once('/').unwrap().0;
                return error(format!(
                    "extender \"{url}\" claims a filtered node \"{ghost}\" which is not found in the input node list"
                ));
            }
            names
        }
        (None, Some(nodes)) => {
            let items = member(nodes, "items")?.and_then(Value::as_array).cloned();
            let name =
                |node: &Value| node["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            items.unwrap_or_default().iter().map(name).collect()
        }
        (None, None) => Vec::new(),
    };
    Ok(Taken::Kept { names, failed, unresolvable })
}

/// The names of the nodes of a request.
pub(crate) fn requested_nodes(request: &Value) -> BTreeSet<&str> {
    let names = request["NodeNames"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let nodes = request["Nodes"]["items"].as_array().into_iter().flatten();
    names.chain(nodes.filter_map(|node| node["metadata"]["name"].as_str())).collect()
}

fn scores(json: &Value) -> Result<Taken, Trouble> {
    let list = match json {
        Value::Null => return Ok(Taken::Scores(BTreeMap::new())),
        Value::Array(list) => list,
        _ => return error("json: cannot unmarshal"),
    };
    let mut scores: BTreeMap<String, i64> = BTreeMap::new();
    for entry in list {
        let score = match member(entry, "Score")? {
            None => 0,
            Some(Value::Number(number)) => match number.as_i64() {
                Some(score) => score,
                None => return error("json: cannot unmarshal"),
            },
            Some(_) => return error("json: cannot unmarshal"),
        };
        let sum = scores.entry(text(entry, "Host")?).or_default();
        *sum = sum.wrapping_add(score);
    }
    Ok(Taken::Scores(scores))
}

fn candidates(call: &Call<'_>, json: &Value) -> Result<Taken, Trouble> {
    let none = serde_json::Map::new();
    let found = match member(json, "NodeNameToMetaVictims")? {
        None => &none,
        Some(Value::Object(map)) => map,
        Some(_) => return error("json: cannot unmarshal"),
    };
    let proposed = ["NodeNameToMetaVictims", "NodeNameToVictims"]
        .into_iter()
        .filter_map(|name| call.request[name].as_object())
        .flat_map(serde_json::Map::keys);
    let known: BTreeSet<&String> = proposed.collect();
    let mut left = BTreeMap::new();
    for (node, victims) in found {
        if victims.is_null() {
            return Err(Trouble::Crash);
        }
        if !known.contains(node) {
            return error(format!("nodeinfo not found for node name \"{node}\""));
        }
        let pods = member(victims, "Pods")?.and_then(Value::as_array).cloned().unwrap_or_default();
        let mut uids = Vec::new();
        for pod in &pods {
            if pod.is_null() {
                return Err(Trouble::Crash);
            }
            let uid = text(pod, "UID")?;
            if !(call.runs_on)(node, &uid) {
                return error(format!("on node: {node}, but the pod is not found on that node"));
            }
            uids.push(uid);
        }
        match uids.is_empty() {
            true if call.is_ignorable => {}
            true => return error(format!("expected at least one victim pod on node \"{node}\"")),
            false => drop(left.insert(node.clone(), uids)),
        }
    }
    Ok(Taken::Candidates(left))
}
