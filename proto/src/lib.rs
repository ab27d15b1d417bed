//! Berth's wire: the `berth.v1` services and the Kubernetes objects that they use, in both of Kubernetes' encodings.
//!
//! | where | contents |
//! |---|---|
//! | `berth/v1/*.proto` | Berth's own services, one a file: [`berth_v1`] with tonic clients and servers |
//! | `kubernetes/k8s.io/…` | the subset of Kubernetes' messages that decides placements, with upstream's packages, names and field numbers: [`core_v1`], [`apps_v1`], [`batch_v1`], [`storage_v1`], [`node_v1`], [`policy_v1`], [`resource_v1`], [`scheduling_v1`], [`meta_v1`], [`runtime`] |
//! | `build.rs`, `build/json.rs` | compile both; write the JSON form of every message |
//! | `build/openapi.rs` | JSON Schemas of the messages of unary methods: [`openapi`] |
//! | `berth/v1/access.proto`, `build/access.rs` | the option that declares who may call an RPC; the table of all RPCs: [`access`] |
//! | `src/json.rs` | how JSON objects, lists and maps are read and written: Kubernetes' conventions, not proto-JSON |
//! | `kubernetes/fields.txt`, `build/fields.rs` | the names of all fields of Kubernetes' objects, also of those that decisions do not read: [`fields`] |
//! | `build/layout.rs` | what each message takes in memory, told from its bytes: [`layout`] |
//! | `src/quantity.rs`, `src/time.rs`, `src/int_or_string.rs` | the scalars with their own form, written by hand: [`Quantity`], [`Time`], [`MicroTime`], [`IntOrString`] |
//! | `src/encoded_pod.rs` | the pod of a request that is decoded only where its like has not come before: [`EncodedPod`] |
//! | `src/object_meta.rs` | the owner that controls an object |
//! | `src/raw_extension.rs` | the JSON form of [`runtime::RawExtension`], an object of any kind |
//!
//! Every message implements [`prost::Message`] for protobuf. Those of the Kubernetes packages also implement serde's
//! `Serialize` and `Deserialize`; those of [`berth_v1`] are written as JSON, and those that requests contain are read
//! too, strictly.
//!
//! The `.proto` files and prost keep Kubernetes' conventions of protobuf: a field whose presence means something is
//! `optional` (W-PB-1, W-PB-2), empty elements of a list stay (W-PB-3), numbers are read packed and unpacked (W-PB-4),
//! the later of two equal map keys wins (W-PB-5), words are strings (W-PB-6), unknown fields are skipped (W-PB-7), the
//! envelope holds the names of a kind (W-PB-8), and each list is a message of its own (W-PB-9). [`meta_v1::WatchEvent`]
//! is the content of a watch frame (W-ENV-3).
//!
//! This crate decides nothing: it has no rule, no default, no validation beyond the form of a value. Quantities keep
//! their text until a caller needs the [`Amount`].

pub mod access;
pub mod fields;
pub mod layout;
pub mod openapi;
mod encoded_pod;
mod int_or_string;
mod json;
mod object_meta;
mod quantity;
mod raw_extension;
mod time;

pub use encoded_pod::EncodedPod;
pub use int_or_string::{IntOrString, IntOrStringValue};
pub use quantity::{Amount, Quantity, QuantityError};
pub use time::{MicroTime, Time};

pub use generated::berth::v1 as berth_v1;
pub use generated::grpcplugin;
pub use generated::k8s::io::api::apps::v1 as apps_v1;
pub use generated::k8s::io::api::batch::v1 as batch_v1;
pub use generated::k8s::io::api::core::v1 as core_v1;
pub use generated::k8s::io::api::node::v1 as node_v1;
pub use generated::k8s::io::api::policy::v1 as policy_v1;
pub use generated::k8s::io::api::resource::v1 as resource_v1;
pub use generated::k8s::io::api::scheduling::v1 as scheduling_v1;
pub use generated::k8s::io::api::storage::v1 as storage_v1;
pub use generated::k8s::io::apimachinery::pkg::apis::meta::v1 as meta_v1;
pub use generated::k8s::io::apimachinery::pkg::runtime;

/// The serialised `google.protobuf.FileDescriptorSet` of every message and service, for server reflection and for tests
/// that must not forget a field.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// The 4 bytes in front of a [`runtime::Unknown`] in the API server's protobuf (W-ENV-1).
pub const ENVELOPE_MAGIC: [u8; 4] = *b"k8s\0";

#[allow(
    missing_docs,
    unreachable_pub,
    rustdoc::all,
    clippy::all,
    clippy::restriction,
    clippy::too_many_lines,
    reason = "generated"
)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/packages.rs"));
}

#[allow(clippy::all, dead_code, reason = "generated")]
mod generated_json {
    include!(concat!(env!("OUT_DIR"), "/json.rs"));
}
