//! Who may do what: every RPC and every HTTP route by every role, by token and by certificate; what depends on the request; sessions
//! of others; tokens that change; who shows nothing; and what is told of it afterwards.
#![cfg(test)]

#[path = "roles/anonymous.rs"]
mod anonymous;
#[path = "roles/audit.rs"]
mod audit;
#[path = "roles/authority.rs"]
mod authority;
#[path = "roles/certificates.rs"]
mod certificates;
#[path = "roles/http.rs"]
mod http;
#[path = "roles/reload.rs"]
mod reload;
#[path = "roles/request.rs"]
mod request;
#[path = "roles/session.rs"]
mod session;
#[path = "roles/table.rs"]
mod table;
#[path = "roles/world.rs"]
mod world;
