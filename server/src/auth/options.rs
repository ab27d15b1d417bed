//! Options of authentication and authorization.

use std::path::PathBuf;

use super::RoleBinding;

/// How callers are authenticated, and their roles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthOptions {
    /// Bearer tokens, in the form of Kubernetes' static token file (`auth.tokenFile`).
    pub token_file: Option<PathBuf>,
    /// Roles of users and groups, besides those that groups such as `berth:scheduler` have by their names
    /// (`auth.roleBindings`).
    pub role_bindings: Vec<RoleBinding>,
}
