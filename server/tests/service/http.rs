//! The calls below `/v1`: bodies in JSON and YAML, the same answers as over gRPC, refusals, roles, limits, and the
//! OpenAPI document.

mod answers;
mod bodies;
mod limits;
mod openapi;
mod roles;
mod workloads;
mod world;
