//! Who may do what: every RPC and every HTTP route by every role, by token and by certificate; what depends on the request; sessions
//! of others; tokens that change; who shows nothing; and what is told of it afterwards.

mod anonymous;
mod audit;
mod authority;
mod certificates;
mod http;
mod reload;
mod request;
mod session;
mod table;
mod world;
