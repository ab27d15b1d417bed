//! Berth's server: everything that listens, waits, reads a clock or a file, around an engine that does none of this.
//!
//! The rooms are ordered by floors: a room imports only rooms below it. From top to bottom:
//!
//! ```text
//! cli                                                commands
//! in_process · compare                               what commands use: a server without sockets, policies on trial
//! config · conformance · replay                      settings, recordings
//! runtime                                            start, drain, stop
//! grpc · http                                        transports
//! scheduler · extender                               callers of the service inside the server
//! service                                            what Berth answers, whichever transport asks
//! lifecycle · feed · expander · policy · apiserver   sources and rules of the service
//! audit · admission · net · auth                     who calls, how much, over what
//! ledger · replicas · journal                        what survives, and who decides it
//! document · telemetry · reload · escape · words     the ground, with clock, shutdown and critical_task
//! ```
//!
//! No scheduling rule is in this crate: `berth_engine` makes the decisions, and this crate transports them.

pub mod cli;

pub mod in_process;
mod compare;
pub mod config;
pub mod conformance;
mod replay;
pub mod runtime;

pub mod grpc;
pub mod http;

pub mod scheduler;
pub mod extender;
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
mod words;
pub mod clock;
