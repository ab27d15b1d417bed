//! Reasons for which authentication or authorization refuses a call.

use super::Role;

/// A refused caller. The texts never contain a credential.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// No credential was sent where one is needed, or the one that was sent is invalid.
    #[error("authentication required: {reason}")]
    Unauthenticated {
        /// The missing or wrong part; never the credential itself.
        reason: &'static str,
    },
    /// The caller is known and lacks a role.
    #[error("permission denied: user `{user}` needs the role `{role}`")]
    PermissionDenied {
        /// User name from the credential.
        user: String,
        /// Least role that suffices.
        role: Role,
    },
}
