//! Properties of every decoder for arbitrary bytes: a module for each decoder, with one function that takes the bytes.
//!
//! A harness fails by panicking. It checks more than the absence of panics: what was read is written and read again,
//! encodings are compared with each other, values with a slower and simpler computation, and the allocated memory is
//! limited relative to the length of the input. [`TARGETS`] lists the harnesses; `tests/corpus` runs all of them on the
//! committed corpora and on inputs derived from these, `libfuzzer/` runs each by itself for as long as one likes.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a harness fails by panicking"
)]

pub mod corpus;

mod exact;
mod kind;
mod served;
mod work;
mod world;

pub mod admission;
pub mod cel;
pub mod configuration;
pub mod dump;
pub mod duration;
pub mod expander;
pub mod extender;
pub mod grpc;
pub mod http_body;
pub mod int_or_string;
pub mod kubernetes_json;
pub mod kubernetes_protobuf;
pub mod label_selector;
pub mod ledger;
pub mod lifecycle_json;
pub mod lifecycle_protobuf;
pub mod quantity;
pub mod selector;
pub mod time;
pub mod token_file;
pub mod trace_csv;
pub mod traceparent;
pub mod watch;

/// A decoder under test.
#[derive(Copy, Clone, Debug)]
pub struct Target {
    /// The name of its corpus, and of its binary in `libfuzzer/`.
    pub name: &'static str,
    /// Reads the bytes and checks the result.
    pub run: fn(&[u8]),
    /// The file in `dictionaries/` with the words of its format; empty where it has none.
    pub dictionary: &'static str,
    /// The number of derived inputs in the short run, a part of `cargo test`: as many as an unoptimised build takes in
    /// about a second.
    pub n_short: u32,
}

macro_rules! targets {
    ($($name:ident, $dictionary:literal, $n_short:literal;)*) => {
        &[$(Target {
            name: stringify!($name),
            run: $name::run,
            dictionary: $dictionary,
            n_short: $n_short,
        }),*]
    };
}

/// All targets, by name.
pub const TARGETS: &[Target] = targets![
    admission, "json.dict", 3_000;
    cel, "cel.dict", 5_000;
    configuration, "yaml.dict", 2_000;
    dump, "yaml.dict", 5_000;
    duration, "", 20_000;
    expander, "protobuf.dict", 1_000;
    extender, "json.dict", 1_000;
    grpc, "protobuf.dict", 1_000;
    http_body, "json.dict", 1_000;
    int_or_string, "", 50_000;
    kubernetes_json, "json.dict", 3_000;
    kubernetes_protobuf, "protobuf.dict", 3_000;
    label_selector, "", 50_000;
    ledger, "protobuf.dict", 20_000;
    lifecycle_json, "json.dict", 10_000;
    lifecycle_protobuf, "protobuf.dict", 10_000;
    quantity, "", 20_000;
    selector, "json.dict", 2_000;
    time, "", 20_000;
    token_file, "", 10_000;
    trace_csv, "", 10_000;
    traceparent, "", 50_000;
    watch, "json.dict", 10_000;
];
