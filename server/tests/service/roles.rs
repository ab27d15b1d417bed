//! Authorization: every RPC and every HTTP route by every role, by token and by certificate; roles that depend on the
//! request; sessions of other users; tokens that change; callers without credentials; and the audit log.

mod anonymous;
mod audit;
mod authority;
mod certificates;
pub(crate) mod http;
mod reload;
mod request;
mod session;
pub(crate) mod table;
pub(crate) mod world;
