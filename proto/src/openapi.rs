//! Parts of an OpenAPI document that are made from the `.proto` files: the schemas of all messages of unary methods in
//! their JSON form, and the methods.

include!(concat!(env!("OUT_DIR"), "/openapi.rs"));

/// A unary method of `berth.v1`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The path of HTTP/2's `:path`, such as `/berth.v1.PlacementService/Place`.
    pub path: &'static str,
    /// The comment of the method.
    pub description: &'static str,
    /// Name of the schema of its request in [`SCHEMAS`].
    pub request: &'static str,
    /// Name of the schema of its response in [`SCHEMAS`].
    pub response: &'static str,
}

/// The schema with this name, as JSON text.
#[must_use]
pub fn schema(name: &str) -> Option<&'static str> {
    let at = SCHEMAS.binary_search_by_key(&name, |(name, _)| name).ok()?;
    SCHEMAS.get(at).map(|(_, schema)| *schema)
}
