//! The server over real connections: lists, watches, writes and faults.
#![cfg(test)]

#[path = "api/client.rs"]
mod client;
#[path = "api/objects.rs"]
mod objects;
#[path = "api/lists.rs"]
mod lists;
#[path = "api/watches.rs"]
mod watches;
#[path = "api/writes.rs"]
mod writes;
#[path = "api/faults.rs"]
mod faults;
#[path = "api/typed.rs"]
mod typed;
#[path = "api/binary.rs"]
mod binary;
