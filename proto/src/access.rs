//! Requirements and effect of each RPC, as the option `(berth.v1.access)` of its `.proto` file declares them.

include!(concat!(env!("OUT_DIR"), "/access.rs"));

/// An RPC of `berth.v1` or `grpcplugin`, with the requirements and the effect of a call.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Method {
    /// The path of HTTP/2's `:path`, such as `/berth.v1.PlacementService/Place`.
    pub path: &'static str,
    /// Whether requests or responses are streamed.
    pub is_stream: bool,
    /// The role that every call needs.
    pub role: Role,
    /// Resource that the call competes for with other calls.
    pub lane: Lane,
    /// Whether the call changes anything that other callers see.
    pub effect: Effect,
    /// Condition besides the role that the handler checks once it has read the request, as text; empty if there is
    /// none.
    pub condition: &'static str,
}
