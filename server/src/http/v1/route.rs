//! Routes: the one table of the calls that HTTP offers, each with its RPC and the JSON form of its messages.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use berth_proto::berth_v1 as wire;
use berth_proto::fields::refusing_unknown_fields;
use berth_proto::openapi::{OPERATIONS, Operation};
use prost::Message;
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::failure::Failure;
use super::told::Added;
use crate::escape;
use crate::feed::file;
use crate::lifecycle::each_function;

/// Beginning of the paths of lifecycle calls. What follows is the function's name, in any case and with hyphens.
const LIFECYCLE: &str = "/v1/lifecycle/";
/// Path of the call that takes one pod, or several at a time as [`PLACE_BATCH`] does.
pub(crate) const PLACE: &str = "/v1/place";
/// Path of the call that takes several pods.
pub(crate) const PLACE_BATCH: &str = "/v1/place-batch";
/// Path of the call that may be about one node.
pub(crate) const EXPLAIN: &str = "/v1/explain";
/// Path of the call that makes copies of its pod.
pub(crate) const HEADROOM: &str = "/v1/headroom";
/// Path of the call that takes nodes as templates of groups.
pub(crate) const SCALE_UP: &str = "/v1/scale-up";
/// Path of the call that takes nodes by their names.
pub(crate) const DRAIN: &str = "/v1/drain";

/// Writes an encoded message as JSON, with line breaks if the flag is set, and with members besides its own.
type Write = fn(&[u8], bool, Option<&Added>) -> Result<String, String>;

/// A call over HTTP.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    /// The path on the HTTP port, such as `/v1/place`.
    pub(crate) path: String,
    /// The RPC that answers.
    pub(crate) operation: &'static Operation,
    read: fn(&str) -> serde_json::Result<Vec<u8>>,
    write: Write,
    rewrite: Write,
}

static ROUTES: LazyLock<BTreeMap<String, Route>> = LazyLock::new(|| {
    let routes = calls().into_iter().chain(functions()).flatten();
    routes.map(|route| (normalized(&route.path), route)).collect()
});

/// The route of a path.
pub(crate) fn find(path: &str) -> Option<&'static Route> {
    ROUTES.get(&normalized(path))
}

/// All routes, sorted by path.
pub(crate) fn all() -> impl Iterator<Item = &'static Route> {
    ROUTES.values()
}

/// The path in the form of the table's keys: functions are found as `DecideRestart` and as `decide-restart`.
fn normalized(path: &str) -> String {
    match path.strip_prefix(LIFECYCLE) {
        Some(name) => format!("{LIFECYCLE}{}", name.replace('-', "").to_ascii_lowercase()),
        None => path.to_owned(),
    }
}

macro_rules! routes {
    ($($path:literal $rpc:literal $request:ident -> $response:ident;)+) => {
        vec![$(
            Route::new::<wire::$request, wire::$response>($path.to_owned(), concat!("/berth.v1.", $rpc)),
        )+]
    };
}

fn calls() -> Vec<Option<Route>> {
    routes![
        "/v1/place" "PlacementService/Place" PlaceRequest -> PlaceResponse;
        "/v1/place-batch" "PlacementService/PlaceBatch" PlaceBatchRequest -> PlaceBatchResponse;
        "/v1/explain" "PlacementService/Explain" ExplainRequest -> ExplainResponse;
        "/v1/preempt" "PreemptionService/Preempt" PreemptRequest -> PreemptResponse;
        "/v1/list-candidates" "PreemptionService/ListCandidates" ListCandidatesRequest -> ListCandidatesResponse;
        "/v1/headroom" "AutoscalerService/Headroom" HeadroomRequest -> HeadroomResponse;
        "/v1/drain" "AutoscalerService/SimulateDrain" SimulateDrainRequest -> SimulateDrainResponse;
        "/v1/scale-up" "AutoscalerService/SimulateScaleUp" SimulateScaleUpRequest -> SimulateScaleUpResponse;
        "/v1/fit" "AutoscalerService/Fit" FitRequest -> FitResponse;
        "/v1/consolidate" "AutoscalerService/Consolidate" ConsolidateRequest -> ConsolidateResponse;
        "/v1/scale-in" "AutoscalerService/ChooseScaleIn" ChooseScaleInRequest -> ChooseScaleInResponse;
        "/v1/reserve" "PlacementService/Reserve" ReserveRequest -> ReserveResponse;
        "/v1/assumed/confirm" "PlacementService/Confirm" ConfirmRequest -> ConfirmResponse;
        "/v1/assumed/extend" "PlacementService/Extend" ExtendRequest -> ExtendResponse;
        "/v1/assumed/release" "PlacementService/Release" ReleaseRequest -> ReleaseResponse;
        "/v1/assumed/list" "PlacementService/ListAssumed" ListAssumedRequest -> ListAssumedResponse;
        "/v1/ledger/acquire-identity" "LifecycleService/AcquireIdentity" AcquireIdentityRequest -> AcquireIdentityResponse;
        "/v1/ledger/record-identity-event" "LifecycleService/RecordIdentityEvent" RecordIdentityEventRequest -> RecordIdentityEventResponse;
        "/v1/ledger/get-identity" "LifecycleService/GetIdentity" GetIdentityRequest -> GetIdentityResponse;
        "/v1/ledger/attach-volume" "LifecycleService/AttachVolume" AttachVolumeRequest -> AttachVolumeResponse;
        "/v1/ledger/detach-volume" "LifecycleService/DetachVolume" DetachVolumeRequest -> DetachVolumeResponse;
        "/v1/ledger/break-attachment" "LifecycleService/BreakAttachment" BreakAttachmentRequest -> BreakAttachmentResponse;
        "/v1/ledger/may-start" "LifecycleService/MayStart" MayStartRequest -> MayStartResponse;
        "/v1/ledger/get-volume" "LifecycleService/GetVolume" GetVolumeRequest -> GetVolumeResponse;
        "/v1/ledger/advance-fence" "LifecycleService/AdvanceFence" AdvanceFenceRequest -> AdvanceFenceResponse;
        "/v1/ledger/get-fence" "LifecycleService/GetFence" GetFenceRequest -> GetFenceResponse;
        "/v1/ledger/check-token" "LifecycleService/CheckToken" CheckTokenRequest -> CheckTokenResponse;
        "/v1/ledger/list-records" "LifecycleService/ListLedgerRecords" ListLedgerRecordsRequest -> ListLedgerRecordsResponse;
        "/v1/decisions/list" "DecisionService/List" ListDecisionsRequest -> ListDecisionsResponse;
        "/v1/decisions/get" "DecisionService/Get" GetDecisionRequest -> GetDecisionResponse;
        "/v1/decisions/replay" "DecisionService/Replay" ReplayDecisionRequest -> ReplayDecisionResponse;
        "/v1/decisions/compare" "DecisionService/Compare" CompareRequest -> CompareResponse;
        "/v1/get-cluster" "ClusterService/GetCluster" GetClusterRequest -> GetClusterResponse;
        "/v1/list-nodes" "ClusterService/ListNodes" ListNodesRequest -> ListNodesResponse;
        "/v1/get-pod" "ClusterService/GetPod" GetPodRequest -> GetPodResponse;
        "/v1/list-pods" "ClusterService/ListPods" ListPodsRequest -> ListPodsResponse;
        "/v1/list-pending" "ClusterService/ListPending" ListPendingRequest -> ListPendingResponse;
        "/v1/sessions/open" "SessionService/Open" SessionServiceOpenRequest -> SessionServiceOpenResponse;
        "/v1/sessions/apply" "SessionService/Apply" SessionServiceApplyRequest -> SessionServiceApplyResponse;
        "/v1/sessions/commit" "SessionService/Commit" SessionServiceCommitRequest -> SessionServiceCommitResponse;
        "/v1/sessions/close" "SessionService/Close" SessionServiceCloseRequest -> SessionServiceCloseResponse;
    ]
}

macro_rules! lifecycle_routes {
    ($($group:literal $name:literal $module:ident::$function:ident($request:ident) -> $response:ident;)+) => {
        fn functions() -> Vec<Option<Route>> {
            vec![$(Route::of_function::<wire::$request, wire::$response>($name, stringify!($request)),)+]
        }
    };
}

each_function!(lifecycle_routes);

impl Route {
    fn new<Request, Response>(path: String, rpc: &str) -> Option<Route>
    where
        Request: Message + Default + Serialize + DeserializeOwned,
        Response: Message + Default + Serialize,
    {
        let operation = OPERATIONS.iter().find(|operation| operation.path == rpc)?;
        Some(Route {
            path,
            operation,
            read: read::<Request>,
            write: write::<Response>,
            rewrite: write::<Request>,
        })
    }

    /// The route of a lifecycle function, whose RPC has the name of its request.
    fn of_function<Request, Response>(name: &str, request: &str) -> Option<Route>
    where
        Request: Message + Default + Serialize + DeserializeOwned,
        Response: Message + Default + Serialize,
    {
        let rpc = request.strip_suffix("Request")?;
        let rpc = format!("/berth.v1.LifecycleService/{rpc}");
        Route::new::<Request, Response>(format!("{LIFECYCLE}{name}"), &rpc)
    }

    /// Encodes the request that `json` is the JSON form of.
    ///
    /// # Errors
    /// A text that is not JSON, with the position; a value of the wrong type or an unknown field, with its path.
    pub(crate) fn encode(&self, json: &str) -> Result<Vec<u8>, Failure> {
        refusing_unknown_fields(|| self.encode_leniently(json))
    }

    /// Encodes a request like [`Route::encode`], but skips fields of Kubernetes' objects that Kubernetes does not know.
    ///
    /// # Errors
    /// A text that is not JSON, with the position; a value of the wrong type, with its field.
    pub(crate) fn encode_leniently(&self, json: &str) -> Result<Vec<u8>, Failure> {
        (self.read)(json).map_err(|error| {
            // An error inside of a field names the field, also where the text is no JSON from there on.
            if let Err(syntax) = serde_json::from_str::<IgnoredAny>(json) {
                let (line, column) = (syntax.line(), syntax.column());
                let (_, reason) = file::fault(&syntax);
                return Failure::invalid(format!(
                    "the body is no JSON: line {line}, column {column}: {reason}"
                ));
            }
            match file::fault(&error) {
                (Some(field), reason) => Failure::field(field, reason),
                (None, reason) => Failure::invalid(format!("the request: {reason}")),
            }
        })
    }

    /// The JSON form of an encoded response, with what is told besides.
    ///
    /// # Errors
    /// A response that has none, such as one with a time after the year 9999.
    pub(super) fn json(
        &self,
        message: &[u8],
        is_pretty: bool,
        added: Option<&Added>,
    ) -> Result<String, Failure> {
        (self.write)(message, is_pretty, added).map_err(Failure::unwritable)
    }

    /// The JSON form of an encoded request.
    ///
    /// # Errors
    /// A request that has none, such as one with a time after the year 9999.
    pub(crate) fn request_json(&self, message: &[u8]) -> Result<String, Failure> {
        (self.rewrite)(message, false, None).map_err(Failure::unwritable)
    }
}

/// A message with further members.
#[derive(Serialize)]
struct Answer<'a, T> {
    #[serde(flatten)]
    message: T,
    #[serde(flatten)]
    added: Option<&'a Added>,
}

fn read<T: Message + DeserializeOwned>(json: &str) -> serde_json::Result<Vec<u8>> {
    Ok(serde_json::from_str::<T>(json)?.encode_to_vec())
}

fn write<T: Message + Default + Serialize>(
    message: &[u8],
    is_pretty: bool,
    added: Option<&Added>,
) -> Result<String, String> {
    let message = T::decode(message).map_err(|error| error.to_string())?;
    let answer = Answer { message, added };
    let write = if is_pretty { serde_json::to_string_pretty } else { serde_json::to_string };
    let text = write(&answer).map_err(|error| error.to_string())?;
    Ok(escape::json(&text).into_owned() + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::FUNCTIONS;

    #[test]
    fn every_call_has_its_rpc() {
        for route in calls().into_iter().chain(functions()) {
            let route = route.unwrap();
            assert_eq!(find(&route.path).unwrap().operation, route.operation);
        }
        assert_eq!(all().count(), calls().len() + FUNCTIONS.len());
        for constant in [PLACE, PLACE_BATCH, EXPLAIN, HEADROOM, SCALE_UP, DRAIN] {
            assert!(find(constant).is_some(), "{constant}");
        }
    }

    #[test]
    fn functions_are_found_by_both_spellings() {
        for path in ["DecideRestart", "decide-restart", "decideRestart"] {
            let route = find(&format!("{LIFECYCLE}{path}")).unwrap();
            assert_eq!(route.operation.path, "/berth.v1.LifecycleService/DecideRestart");
        }
        assert_eq!(
            find("/v1/lifecycle/qos-class").unwrap().operation.path,
            "/berth.v1.LifecycleService/QosClass"
        );
        for path in ["/v1/Place", "/v1/place/", "/v1", "/v1/lifecycle/", "/v1/lifecycle/place"] {
            assert!(find(path).is_none(), "{path}");
        }
    }

    #[test]
    fn errors_say_where() {
        let place = find(PLACE).unwrap();
        let message = |json: &str| {
            let response = place.encode(json).unwrap_err().to_status();
            response.message().to_owned()
        };
        assert_eq!(message(r#"{"pods": 1}"#), "`pods`: unknown field");
        assert_eq!(
            message(r#"{"mode": "ASSUME"}"#),
            "`mode`: invalid value: string \"ASSUME\", expected one of PLACE_MODE_UNSPECIFIED, PLACE_MODE_DRY_RUN, PLACE_MODE_ASSUME"
        );
        assert_eq!(
            message(r#"{"tieBreak": {"seed": -1}}"#),
            "`tieBreak.seed`: invalid value: integer `-1`, expected a 64-bit integer of 0 or more"
        );
        assert_eq!(
            message("{\n\"mode\": }"),
            "the body is no JSON: line 2, column 9: expected value"
        );
        assert_eq!(message("{} {}"), "the body is no JSON: line 1, column 4: trailing characters");
        assert!(message("[1]").contains("expected an object (PlaceRequest)"), "{}", message("[1]"));
    }
}
