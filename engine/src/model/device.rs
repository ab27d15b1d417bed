//! Devices: classes, the slices in which drivers publish devices, claims for devices, and the claims of a pod.
//!
//! An object that no API server would store still compiles as long as it can be read: rules of dynamic resource
//! allocation say when an unknown word or a missing part becomes an error, and for which pods. Refused are only
//! quantities that do not parse.

pub(crate) mod amount;
pub(crate) mod allocation;
pub(crate) mod assigned;
pub(crate) mod claim;
pub(crate) mod class;
pub(crate) mod constraint;
pub(crate) mod id;
mod layout;
pub(crate) mod node_selection;
pub(crate) mod pod_claims;
pub(crate) mod published;
pub(crate) mod remembered;
pub(crate) mod request;
pub(crate) mod selector;
pub(crate) mod shape;
pub(crate) mod slice;
pub(crate) mod template;
pub(crate) mod text;
pub(crate) mod toleration;
pub(crate) mod verdicts;

#[cfg(test)]
mod tests;
