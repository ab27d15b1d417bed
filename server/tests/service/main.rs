//! The service as its callers see it: a real server on loopback inside the test's process, and real clients.
#![cfg(test)]

mod attacks;
mod conformance;
mod expander;
mod extender;
mod floors;
mod grpc;
mod http;
mod http2;
mod overload;
mod roles;
mod telemetry;
mod tls;
