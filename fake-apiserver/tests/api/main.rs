//! Tests of the server over real connections: lists, watches, writes, faults, and recordings of a real API server.
#![cfg(test)]

mod binary;
mod client;
mod faults;
mod kubectl;
mod lists;
mod objects;
mod recordings;
mod typed;
mod watches;
mod writes;
