//! Extenders that kube-scheduler would call. Berth calls none, but refuses a file with invalid ones (10.4).

use super::syntax;
use crate::document::Problem;
use crate::document::decode::{self, Fields};

/// One entry of `extenders`, with the fields that validation reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extender {
    /// Base URL.
    pub url_prefix: String,
    /// Verb of filter; empty means not supported, as for the other verbs.
    pub filter_verb: String,
    /// Verb of prioritize.
    pub prioritize_verb: String,
    /// Verb of preempt.
    pub preempt_verb: String,
    /// Verb of bind.
    pub bind_verb: String,
    /// Weight of the extender's scores.
    pub weight: i64,
    /// Timeout in nanoseconds; 0 was defaulted to 5 s.
    pub http_timeout_ns: i64,
    /// Whether the extender takes node names instead of nodes.
    pub node_cache_capable: bool,
    /// Whether a pod goes on when the extender fails.
    pub ignorable: bool,
    /// Resources that the extender manages: name, and whether the scheduler ignores it.
    pub managed_resources: Vec<(String, bool)>,
}

pub(super) fn decode(fields: &mut Fields<'_>) -> Extender {
    const TLS: [&str; 8] = [
        "insecure",
        "serverName",
        "certFile",
        "keyFile",
        "caFile",
        "certData",
        "keyData",
        "caData",
    ];
    fields.take("enableHTTPS", decode::boolean);
    fields.take("tlsConfig", |tls| tls.object(|fields| fields.ignore(&TLS)));
    Extender {
        url_prefix: fields.take_or_default("urlPrefix", decode::text),
        filter_verb: fields.take_or_default("filterVerb", decode::text),
        prioritize_verb: fields.take_or_default("prioritizeVerb", decode::text),
        preempt_verb: fields.take_or_default("preemptVerb", decode::text),
        bind_verb: fields.take_or_default("bindVerb", decode::text),
        weight: fields.take_or_default("weight", decode::integer),
        http_timeout_ns: fields
            .take("httpTimeout", decode::nanoseconds)
            .filter(|timeout| *timeout != 0)
            .unwrap_or(5_000_000_000),
        node_cache_capable: fields.take_or_default("nodeCacheCapable", decode::boolean),
        ignorable: fields.take_or_default("ignorable", decode::boolean),
        managed_resources: fields.take_or_default("managedResources", |list| {
            list.list(|item| {
                item.object(|fields| {
                    let name = fields.take_or_default("name", decode::text);
                    (name, fields.take_or_default("ignoredByScheduler", decode::boolean))
                })
            })
        }),
    }
}

pub(super) fn validate(extenders: &[Extender]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for (i, extender) in extenders.iter().enumerate() {
        if !extender.prioritize_verb.is_empty() && extender.weight <= 0 {
            let reason = format!(
                "invalid value `{}`: must have a positive weight applied to it",
                extender.weight
            );
            problems.push(Problem::new(format!("extenders[{i}].weight"), reason));
        }
        for (j, (name, _)) in extender.managed_resources.iter().enumerate() {
            let field = format!("extenders[{i}].managedResources[{j}].name");
            if let Err(reason) = syntax::extended_resource_name(name) {
                problems.push(Problem::new(&field, reason));
            }
            if names.contains(&name.as_str()) {
                let reason =
                    format!("invalid value `{name}`: duplicate extender managed resource name");
                problems.push(Problem::new(&field, reason));
            }
            names.push(name);
        }
    }
    let n_binders = extenders.iter().filter(|extender| !extender.bind_verb.is_empty()).count();
    if n_binders > 1 {
        let reason = format!(
            "invalid value `found {n_binders} extenders implementing bind`: only one extender can implement bind"
        );
        problems.push(Problem::new("extenders", reason));
    }
    problems
}
