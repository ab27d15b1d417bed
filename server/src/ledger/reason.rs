//! Reasons that several kinds of grants share.

/// Reason for a token of another grant than the current one.
pub(super) const STALE_TOKEN: &str = "StaleToken";
