//! Lookup: the API server's words for objects that are not found.

/// The resource of claims.
pub(super) const CLAIMS: &str = "persistentvolumeclaim";

/// The API server's text for an object that does not exist.
pub(super) fn not_found(resource: &str, name: &str) -> String {
    format!("{resource} \"{name}\" not found")
}
