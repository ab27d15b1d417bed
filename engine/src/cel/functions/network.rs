//! Functions of IP addresses, blocks of them, and URLs (S-DRA-115).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cel::address::{Address, Prefix};
use crate::cel::cost::Cost;
use crate::cel::error::EvalError;
use crate::cel::function::{Evaluated, Function, function, uniform};
use crate::cel::url::Url;
use crate::cel::value::{Key, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    uniform("ip", Cost::Text, &[("(string) -> ip", Cost::Text), ("cidr.() -> ip", Cost::One)], ip),
    uniform("isIP", Cost::Text, &[("(string) -> bool", Cost::Text)], |args| {
        test(args, |text| Address::parse(text).is_some())
    }),
    uniform(
        "ip.isCanonical",
        Cost::TextTwice,
        &[("(string) -> bool", Cost::TextTwice)],
        is_canonical,
    ),
    function("family", &[("ip.() -> int", Cost::One)], |args| {
        Ok(Value::Int(address(args)?.family()))
    }),
    function("isUnspecified", FLAG, |args| Ok(Value::Bool(address(args)?.is_unspecified()))),
    function("isLoopback", FLAG, |args| Ok(Value::Bool(address(args)?.is_loopback()))),
    function("isLinkLocalMulticast", FLAG, |args| {
        Ok(Value::Bool(address(args)?.is_link_local_multicast()))
    }),
    function("isLinkLocalUnicast", FLAG, |args| {
        Ok(Value::Bool(address(args)?.is_link_local_unicast()))
    }),
    function("isGlobalUnicast", FLAG, |args| Ok(Value::Bool(address(args)?.is_global_unicast()))),
    uniform("cidr", Cost::Text, &[("(string) -> cidr", Cost::Text)], |args| match args {
        [Value::String(text)] => parse_cidr(text).map(Value::Cidr),
        _ => Err(EvalError::no_overload()),
    }),
    uniform("isCIDR", Cost::Text, &[("(string) -> bool", Cost::Text)], |args| {
        test(args, |text| Prefix::parse(text).is_some())
    }),
    uniform(
        "containsIP",
        Cost::ContainsIp(false),
        &[
            ("cidr.(ip) -> bool", Cost::ContainsIp(false)),
            ("cidr.(string) -> bool", Cost::ContainsIp(true)),
        ],
        contains_ip,
    ),
    uniform(
        "containsCIDR",
        Cost::ContainsCidr(false),
        &[
            ("cidr.(cidr) -> bool", Cost::ContainsCidr(false)),
            ("cidr.(string) -> bool", Cost::ContainsCidr(true)),
        ],
        contains_cidr,
    ),
    function("prefixLength", &[("cidr.() -> int", Cost::One)], |args| match args {
        [Value::Cidr(prefix)] => Ok(Value::Int(i64::from(prefix.length))),
        _ => Err(EvalError::no_overload()),
    }),
    function("masked", &[("cidr.() -> cidr", Cost::One)], |args| match args {
        [Value::Cidr(prefix)] => Ok(Value::Cidr(prefix.masked())),
        _ => Err(EvalError::no_overload()),
    }),
    uniform("url", Cost::Text, &[("(string) -> url", Cost::Text)], |args| match args {
        [Value::String(text)] => {
            Url::parse(text).map(|url| Value::Url(Arc::new(url))).ok_or_else(|| {
                EvalError::of(format!("URL parse error during conversion from string: {text}"))
            })
        }
        _ => Err(EvalError::no_overload()),
    }),
    function("isURL", &[("(string) -> bool", Cost::One)], |args| {
        test(args, |text| Url::parse(text).is_some())
    }),
    function("getScheme", PART, |args| part(args, |url| &url.scheme)),
    function("getHost", PART, |args| part(args, |url| &url.host)),
    function("getHostname", PART, |args| part(args, |url| url.hostname())),
    function("getPort", PART, |args| part(args, |url| url.port())),
    function("getEscapedPath", PART, |args| part(args, |url| &url.escaped_path)),
    function("getQuery", &[("url.() -> map(string, list(string))", Cost::One)], query),
];

const FLAG: &[(&str, Cost)] = &[("ip.() -> bool", Cost::One)];
const PART: &[(&str, Cost)] = &[("url.() -> string", Cost::One)];

fn test(args: &[&Value], holds: fn(&str) -> bool) -> Evaluated {
    match args {
        [Value::String(text)] => Ok(Value::Bool(holds(text))),
        _ => Err(EvalError::no_overload()),
    }
}

fn address(args: &[&Value]) -> Result<Address, EvalError> {
    match args {
        [Value::Ip(address)] => Ok(*address),
        _ => Err(EvalError::no_overload()),
    }
}

fn parse_ip(text: &str) -> Result<Address, EvalError> {
    Address::parse(text).ok_or_else(|| {
        EvalError::of(format!("IP Address {text:?} parse error during conversion from string"))
    })
}

fn parse_cidr(text: &str) -> Result<Prefix, EvalError> {
    Prefix::parse(text).ok_or_else(|| {
        EvalError::of(format!(
            "network address parse error during conversion from string: {text:?}"
        ))
    })
}

fn ip(args: &[&Value]) -> Evaluated {
    match args {
        [Value::String(text)] => parse_ip(text).map(Value::Ip),
        [Value::Cidr(prefix)] => Ok(Value::Ip(prefix.address)),
        _ => Err(EvalError::no_overload()),
    }
}

fn is_canonical(args: &[&Value]) -> Evaluated {
    match args {
        [Value::String(text)] => Ok(Value::Bool(parse_ip(text)?.to_string() == **text)),
        _ => Err(EvalError::no_overload()),
    }
}

fn contains_ip(args: &[&Value]) -> Evaluated {
    match args {
        [Value::Cidr(prefix), Value::Ip(address)] => Ok(Value::Bool(prefix.contains(*address))),
        [Value::Cidr(prefix), Value::String(text)] => {
            Ok(Value::Bool(prefix.contains(parse_ip(text)?)))
        }
        _ => Err(EvalError::no_overload()),
    }
}

fn contains_cidr(args: &[&Value]) -> Evaluated {
    match args {
        [Value::Cidr(prefix), Value::Cidr(other)] => Ok(Value::Bool(prefix.contains_block(*other))),
        [Value::Cidr(prefix), Value::String(text)] => {
            Ok(Value::Bool(prefix.contains_block(parse_cidr(text)?)))
        }
        _ => Err(EvalError::no_overload()),
    }
}

fn part(args: &[&Value], part: fn(&Url) -> &str) -> Evaluated {
    match args {
        [Value::Url(url)] => Ok(Value::string(part(url))),
        _ => Err(EvalError::no_overload()),
    }
}

fn query(args: &[&Value]) -> Evaluated {
    let [Value::Url(url)] = args else { return Err(EvalError::no_overload()) };
    let mut values: BTreeMap<Key, Vec<Value>> = BTreeMap::new();
    for (name, value) in url.parameters() {
        values.entry(Key::String(name.into())).or_default().push(Value::string(value));
    }
    Ok(Value::map(values.into_iter().map(|(name, values)| (name, Value::list(values))).collect()))
}
