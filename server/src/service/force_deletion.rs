//! Policy of forced deletions. Rule: L-GRANT-5.

use clap::ValueEnum;

/// Who may release the name of a pod by force, although processes of the pod may still run.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ForceDeletion {
    /// Callers of the role `admin`.
    #[default]
    Admin,
    /// Besides, the authenticated user who acquired the name.
    Owner,
}
