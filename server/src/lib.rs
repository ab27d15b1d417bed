//! Berth's server: everything that listens, waits, reads a clock or a file, around an engine that does none of this.
//!
//! The rooms are ordered by floors: a room imports only rooms below it. From top to bottom:
//!
//! ```text
//! cli                                                commands
//! in_process                                         a server without sockets
//! config · conformance                               settings, recorded cases
//! runtime                                            start, drain, stop
//! grpc · http                                        transports
//! decisions                                          what was decided, from the journal
//! compare                                            policies on trial, on a journal
//! scheduler · extender · replay                      callers of the service inside the server, a journal made again
//! service                                            what Berth answers, whichever transport asks
//! lifecycle · feed · expander · policy · apiserver   sources and rules of the service
//! audit · admission · net · auth                     who calls, how much, over what
//! ledger · replicas · journal                        what survives, and who decides it
//! document · telemetry · reload · escape · words     the ground, with clock, shutdown, critical_task, node_labels
//! ```
//!
//! No scheduling rule is in this crate: `berth_engine` makes the decisions, and this crate transports them.

pub mod cli;

pub mod in_process;
pub mod config;
pub mod conformance;
pub mod runtime;

pub mod grpc;
pub mod http;

mod decisions;
mod compare;
pub mod scheduler;
pub mod extender;
mod replay;
pub mod service;

pub mod lifecycle;
pub mod feed;
pub mod expander;
pub mod policy;
pub mod apiserver;

pub mod audit;
pub mod admission;
pub mod net;
pub mod auth;
pub mod ledger;
pub mod replicas;
mod journal;

pub mod document;
pub mod telemetry;
mod reload;
mod critical_task;
mod shutdown;
pub mod escape;
mod node_labels;
mod words;
pub mod clock;
