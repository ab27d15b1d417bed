//! Expander: cluster-autoscaler's requests, which stay bytes until somebody looks at an object in them.

use std::collections::HashSet;

use berth_proto::grpcplugin::{BestOptionsRequest, BestOptionsResponse};
use prost::Message;

use crate::{grpc, served};

const PATH: &str = "/grpcplugin.Expander/BestOptions";

/// The bytes are a request.
pub fn run(data: &[u8]) {
    grpc::check(PATH, &served::call(PATH, data));
    // Written again, for a reader of whole messages takes a map's entry for one whatever its wire type says.
    let Ok(request) = BestOptionsRequest::decode(data) else { return };
    let answer = served::call(PATH, &request.encode_to_vec());
    grpc::check(PATH, &answer);
    if answer.grpc_status() != Some(0) {
        return;
    }
    let response = BestOptionsResponse::decode(&answer.body[5..]).unwrap();
    // The answer names groups that the request named, each once, and at least one of any.
    let offered: HashSet<&str> =
        request.options.iter().map(|option| &*option.node_group_id).collect();
    let chosen: HashSet<&str> =
        response.options.iter().map(|option| &*option.node_group_id).collect();
    assert!(chosen.is_subset(&offered), "{chosen:?} of {offered:?}");
    assert_eq!(chosen.len(), response.options.len());
    assert_eq!(chosen.is_empty(), offered.is_empty());
}
