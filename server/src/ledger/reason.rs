//! Reasons that several kinds of grants share.

/// The token belongs to another grant than the one that stands.
pub(super) const STALE_TOKEN: &str = "StaleToken";
