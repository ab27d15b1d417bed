//! cluster-autoscaler's requests, whose objects stay bytes until one is needed.

use std::collections::HashSet;

use berth_proto::grpcplugin::{BestOptionsRequest, BestOptionsResponse};
use prost::Message;

use crate::{grpc, served};

const PATH: &str = "/grpcplugin.Expander/BestOptions";

/// Checks the bytes as a request.
pub fn run(data: &[u8]) {
    grpc::check(PATH, &served::call(PATH, data));
    // Encoded again, because a reader of whole messages accepts a map's entry whatever its wire type.
    let Ok(request) = BestOptionsRequest::decode(data) else { return };
    let answer = served::call(PATH, &request.encode_to_vec());
    grpc::check(PATH, &answer);
    if answer.grpc_status() != Some(0) {
        return;
    }
    let response = BestOptionsResponse::decode(&answer.body[5..]).unwrap();
    // The answer has groups of the request, each once, and at least one if the request has any.
    let offered: HashSet<&str> =
        request.options.iter().map(|option| &*option.node_group_id).collect();
    let chosen: HashSet<&str> =
        response.options.iter().map(|option| &*option.node_group_id).collect();
    assert!(chosen.is_subset(&offered), "{chosen:?} of {offered:?}");
    assert_eq!(chosen.len(), response.options.len());
    assert_eq!(chosen.is_empty(), offered.is_empty());
}
