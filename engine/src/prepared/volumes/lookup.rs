//! Lookup: the API server's message for objects that are not found.

/// The resource name of claims.
pub(super) const CLAIMS: &str = "persistentvolumeclaim";

/// The API server's message for an object that does not exist.
pub(super) fn not_found(resource: &str, name: &str) -> String {
    format!("{resource} \"{name}\" not found")
}
