//! Connections of the demo.

/// Connections to the server over which the demo calls.
pub(super) const N_CONNECTIONS: usize = 4;
