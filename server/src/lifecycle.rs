//! The functions of `berth_engine::lifecycle` by name: one list, from which the RPCs, the commands and the conformance
//! run are generated.

mod summary;

use std::fmt::Write as _;

use berth_engine::ModelError;
use berth_engine::lifecycle;
use berth_proto::berth_v1;
use berth_proto::fields::refusing_unknown_fields;
use prost::Message;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::feed::file;

/// Passes the list of decision functions to the macro `$take`: group and name as in the specification, the engine's
/// function, and its request and response in `berth.v1`.
macro_rules! each_function {
    ($take:ident) => {
        $take! {
            "evaluation" "ExplainPod" evaluation::explain_pod(ExplainPodRequest) -> ExplainPodResponse;
            "phase" "DerivePodPhase" phase::derive_pod_phase(DerivePodPhaseRequest) -> DerivePodPhaseResponse;
            "phase" "CheckPhaseTransition" phase::check_phase_transition(CheckPhaseTransitionRequest) -> CheckPhaseTransitionResponse;
            "conditions" "DeriveConditions" condition::derive_conditions(DeriveConditionsRequest) -> DeriveConditionsResponse;
            "conditions" "SetSchedulingCondition" condition::set_scheduling_condition(SetSchedulingConditionRequest) -> SetSchedulingConditionResponse;
            "conditions" "MarkDisruption" condition::mark_disruption(MarkDisruptionRequest) -> MarkDisruptionResponse;
            "conditions" "ExpireDisruption" condition::expire_disruption(ExpireDisruptionRequest) -> ExpireDisruptionResponse;
            "conditions" "MarkPodNotReadyOnNode" condition::mark_pod_not_ready_on_node(MarkPodNotReadyOnNodeRequest) -> MarkPodNotReadyOnNodeResponse;
            "conditions" "AllContainersRestarting" condition::all_containers_restarting(AllContainersRestartingRequest) -> AllContainersRestartingResponse;
            "conditions" "ValidateConditionType" condition::validate_condition_type(ValidateConditionTypeRequest) -> ValidateConditionTypeResponse;
            "container-state" "DeriveContainerState" container_state::derive_container_state(DeriveContainerStateRequest) -> DeriveContainerStateResponse;
            "container-state" "CheckContainerTransition" container_state::check_container_transition(CheckContainerTransitionRequest) -> CheckContainerTransitionResponse;
            "container-state" "ContainerEndEvent" container_end::container_end_event(ContainerEndEventRequest) -> ContainerEndEventResponse;
            "restart" "DecideRestart" restart::decide_restart(DecideRestartRequest) -> DecideRestartResponse;
            "restart" "PlanContainers" restart::plan_containers(PlanContainersRequest) -> PlanContainersResponse;
            "restart" "BackoffSchedule" restart::backoff_schedule(BackoffScheduleRequest) -> BackoffScheduleResponse;
            "restart" "ValidateRestartRules" restart::validate_restart_rules(ValidateRestartRulesRequest) -> ValidateRestartRulesResponse;
            "restart" "ControllerRestartPolicy" restart::controller_restart_policy(ControllerRestartPolicyRequest) -> ControllerRestartPolicyResponse;
            "restart" "SameBackoffHistory" restart::same_backoff_history(SameBackoffHistoryRequest) -> SameBackoffHistoryResponse;
            "probe" "EvaluateProbe" probe::evaluate_probe(EvaluateProbeRequest) -> EvaluateProbeResponse;
            "probe" "ProbeTimeline" probe::probe_timeline(ProbeTimelineRequest) -> ProbeTimelineResponse;
            "probe" "DeriveStartedReady" probe::derive_started_ready(DeriveStartedReadyRequest) -> DeriveStartedReadyResponse;
            "probe" "DefaultProbe" probe::default_probe(DefaultProbeRequest) -> DefaultProbeResponse;
            "probe" "ValidateProbe" probe::validate_probe(ValidateProbeRequest) -> ValidateProbeResponse;
            "termination" "ApplyDelete" termination::apply_delete(ApplyDeleteRequest) -> ApplyDeleteResponse;
            "termination" "EffectiveNodeGrace" termination::effective_node_grace(EffectiveNodeGraceRequest) -> EffectiveNodeGraceResponse;
            "termination" "TerminationPlan" termination::termination_plan(TerminationPlanRequest) -> TerminationPlanResponse;
            "termination" "RestartDuringTermination" termination::restart_during_termination(RestartDuringTerminationRequest) -> RestartDuringTerminationResponse;
            "termination" "ShortenDuringTermination" termination::shorten_during_termination(ShortenDuringTerminationRequest) -> ShortenDuringTerminationResponse;
            "termination" "ContainerKillGrace" termination::container_kill_grace(ContainerKillGraceRequest) -> ContainerKillGraceResponse;
            "termination" "EndpointConditions" termination::endpoint_conditions(EndpointConditionsRequest) -> EndpointConditionsResponse;
            "termination" "CountReplicas" termination::count_replicas(CountReplicasRequest) -> CountReplicasResponse;
            "deletion-authority" "AuthorizeRemoval" deletion::authorize_removal(AuthorizeRemovalRequest) -> AuthorizeRemovalResponse;
            "deletion-authority" "IdentityLock" identity::identity_lock(IdentityLockRequest) -> IdentityLockResponse;
            "deletion-authority" "ReplacementDecision" deletion::replacement_decision(ReplacementDecisionRequest) -> ReplacementDecisionResponse;
            "deletion-authority" "NamespaceDeletion" deletion::namespace_deletion(NamespaceDeletionRequest) -> NamespaceDeletionResponse;
            "fencing" "PartitionCondition" partition::partition_condition(PartitionConditionRequest) -> PartitionConditionResponse;
            "fencing" "DecideFence" fence::decide_fence(DecideFenceRequest) -> DecideFenceResponse;
            "fencing" "FenceSequence" fence::fence_sequence(FenceSequenceRequest) -> FenceSequenceResponse;
            "volume" "AttachSequence" attachment::attach_sequence(AttachSequenceRequest) -> AttachSequenceResponse;
            "volume" "MultiAttachAllowed" attachment::multi_attach_allowed(MultiAttachAllowedRequest) -> MultiAttachAllowedResponse;
            "volume" "CheckSharedVolumes" attachment::check_shared_volumes(CheckSharedVolumesRequest) -> CheckSharedVolumesResponse;
            "node-failure" "NodeHealth" node_failure::node_health(NodeHealthRequest) -> NodeHealthResponse;
            "node-failure" "ZoneDisruption" node_failure::zone_disruption(ZoneDisruptionRequest) -> ZoneDisruptionResponse;
            "node-failure" "TaintEviction" node_failure::taint_eviction(TaintEvictionRequest) -> TaintEvictionResponse;
            "node-failure" "DefaultTolerations" node_failure::default_tolerations(DefaultTolerationsRequest) -> DefaultTolerationsResponse;
            "node-failure" "ZoneOf" node_failure::zone_of(ZoneOfRequest) -> ZoneOfResponse;
            "node-failure" "NodeLossTimeline" node_failure::node_loss_timeline(NodeLossTimelineRequest) -> NodeLossTimelineResponse;
            "podgc" "PodGC" pod_gc::pod_gc(PodGcRequest) -> PodGcResponse;
            "pressure" "QoSClass" pressure::qos_class(QosClassRequest) -> QosClassResponse;
            "pressure" "RankForEviction" pressure::rank_for_eviction(RankForEvictionRequest) -> RankForEvictionResponse;
            "priority" "AdmitPod" priority::admit_pod(AdmitPodRequest) -> AdmitPodResponse;
            "priority" "AdmitPriorityClass" priority::admit_priority_class(AdmitPriorityClassRequest) -> AdmitPriorityClassResponse;
            "priority" "PriorityClassChange" priority::priority_class_change(PriorityClassChangeRequest) -> PriorityClassChangeResponse;
            "gates" "SchedulingReadiness" gate::scheduling_readiness(SchedulingReadinessRequest) -> SchedulingReadinessResponse;
            "gates" "CheckGateUpdate" gate::check_gate_update(CheckGateUpdateRequest) -> CheckGateUpdateResponse;
            "gates" "Bind" gate::bind(BindRequest) -> BindResponse;
            "gates" "CheckTolerationUpdate" gate::check_toleration_update(CheckTolerationUpdateRequest) -> CheckTolerationUpdateResponse;
            "gates" "SameIncarnation" gate::same_incarnation(SameIncarnationRequest) -> SameIncarnationResponse;
            "gates" "CreatePod" gate::create_pod(CreatePodRequest) -> CreatePodResponse;
            "pdb" "ValidatePDB" disruption::validate_pdb(ValidatePdbRequest) -> ValidatePdbResponse;
            "pdb" "PDBStatus" disruption::pdb_status(PdbStatusRequest) -> PdbStatusResponse;
            "pdb" "Evict" disruption::evict(EvictRequest) -> EvictResponse;
            "claim" "ReleaseClaims" claim_release::release_claims(ReleaseClaimsRequest) -> ReleaseClaimsResponse;
        }
    };
}

pub(crate) use each_function;

/// A decision function, callable by name.
#[derive(Copy, Clone, Debug)]
pub struct Function {
    /// The decision group, such as `restart`.
    pub group: &'static str,
    /// The name in the specification, such as `DecideRestart`.
    pub name: &'static str,
    decide: fn(&Value) -> Result<Value, FunctionError>,
    decide_message: fn(&[u8]) -> Result<Vec<u8>, FunctionError>,
    as_json: fn(&[u8]) -> Result<Value, FunctionError>,
    answers: fn(Value) -> Result<(), String>,
}

/// Reason why a function has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FunctionError {
    /// The JSON is not the function's request.
    #[error("{0}")]
    Request(String),
    /// The function refused its request.
    #[error(transparent)]
    Refused(#[from] ModelError),
    /// The answer has no JSON form, such as a time after the year 9999.
    #[error("the answer cannot be written: {0}")]
    Answer(String),
}

impl Function {
    /// The function with this name, which is case sensitive.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Function> {
        FUNCTIONS.iter().find(|function| function.name == name)
    }

    /// Summary of the function's decision, in one line.
    #[must_use]
    pub fn decides(&self) -> &'static str {
        let line = summary::SUMMARIES.iter().find(|(name, _)| *name == self.name);
        line.map_or("", |(_, decides)| decides)
    }

    /// Checks that an answer can have these fields, whatever their values.
    ///
    /// # Errors
    /// The path of a field that no answer has: an example that expects it to be absent would always pass.
    pub fn check_fields(&self, expected: &Map<String, Value>) -> Result<(), String> {
        let keys = expected.iter().map(|(key, value)| (key.clone(), fields(value)));
        (self.answers)(Value::Object(keys.collect()))
    }

    /// Calls the function with the JSON form of its request; the answer is the JSON form of its response.
    ///
    /// # Errors
    /// [`FunctionError`], with the path of the field. An unknown key is an error too, in one of Berth's messages and in an
    /// object of Kubernetes.
    pub fn decide(&self, request: &Value) -> Result<Value, FunctionError> {
        refusing_unknown_fields(|| self.decide_leniently(request))
    }

    /// Calls the function like [`Function::decide`], but skips unknown keys of Kubernetes' objects.
    ///
    /// # Errors
    /// [`FunctionError`], with the path of the field.
    pub fn decide_leniently(&self, request: &Value) -> Result<Value, FunctionError> {
        (self.decide)(request)
    }

    /// Calls the function with its request as protobuf; the answer is its response as protobuf.
    ///
    /// # Errors
    /// [`FunctionError`], with the path of the field if the function refused it.
    pub fn decide_message(&self, request: &[u8]) -> Result<Vec<u8>, FunctionError> {
        (self.decide_message)(request)
    }

    /// Converts a protobuf request to its JSON form.
    ///
    /// # Errors
    /// [`FunctionError::Request`] if the bytes are no such request, or have no JSON form, such as a time after the year
    /// 9999.
    pub fn as_json(&self, request: &[u8]) -> Result<Value, FunctionError> {
        (self.as_json)(request)
    }
}

macro_rules! table {
    ($($group:literal $name:literal $module:ident::$function:ident($request:ident) -> $response:ident;)+) => {
        /// Every decision function, group by group.
        pub const FUNCTIONS: &[Function] = &[
            $(Function {
                group: $group,
                name: $name,
                decide: |value| decide(value, lifecycle::$module::$function),
                decide_message: |bytes| decide_message(bytes, lifecycle::$module::$function),
                as_json: as_json::<berth_v1::$request>,
                answers: read::<berth_v1::$response>,
            },)+
        ];
    };
}

each_function!(table);

/// Decodes the request from JSON, calls the function, encodes the answer as JSON.
fn decide<Request, Response>(
    value: &Value,
    function: fn(&Request) -> Result<Response, ModelError>,
) -> Result<Value, FunctionError>
where
    Request: DeserializeOwned,
    Response: serde::Serialize,
{
    let request = Request::deserialize(value)
        .map_err(|error| FunctionError::Request(file::describe(&error)))?;
    let response = function(&request)?;
    serde_json::to_value(&response).map_err(|error| FunctionError::Answer(error.to_string()))
}

/// Decodes the request from protobuf, calls the function, encodes the answer as protobuf.
fn decide_message<Request, Response>(
    bytes: &[u8],
    function: fn(&Request) -> Result<Response, ModelError>,
) -> Result<Vec<u8>, FunctionError>
where
    Request: Message + Default,
    Response: Message,
{
    Ok(function(&decoded(bytes)?)?.encode_to_vec())
}

fn as_json<Request>(bytes: &[u8]) -> Result<Value, FunctionError>
where
    Request: Message + Default + serde::Serialize,
{
    let request: Request = decoded(bytes)?;
    serde_json::to_value(&request).map_err(|error| FunctionError::Request(error.to_string()))
}

fn decoded<T: Message + Default>(bytes: &[u8]) -> Result<T, FunctionError> {
    T::decode(bytes).map_err(|error| FunctionError::Request(error.to_string()))
}

/// Checks that a value has the form of a message.
fn read<T: DeserializeOwned>(value: Value) -> Result<(), String> {
    T::deserialize(value).map(|_| ()).map_err(|error| file::describe(&error))
}

/// The keys of a value without the values below them: `null` is valid for every field.
fn fields(value: &Value) -> Value {
    match value {
        Value::Object(keys) if !keys.is_empty() => {
            Value::Object(keys.iter().map(|(key, value)| (key.clone(), fields(value))).collect())
        }
        Value::Array(elements) => Value::Array(elements.iter().map(fields).collect()),
        _ => Value::Null,
    }
}

/// The path of a key under `path`: `a.b`, or `a["example.com/b"]` for a key that would not read as one.
pub(crate) fn path_below(path: &str, key: &str) -> String {
    let is_plain = key.starts_with(|c: char| c.is_ascii_alphabetic())
        && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    let mut below = path.to_owned();
    if !is_plain {
        // Writing to a string cannot fail.
        let _ = write!(below, "[{key:?}]");
    } else if path.is_empty() {
        key.clone_into(&mut below);
    } else {
        below.push('.');
        below.push_str(key);
    }
    below
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_of_no_field_are_refused_at_every_depth() {
        let error = |name: &str, request: Value| {
            Function::named(name).unwrap().decide(&request).unwrap_err().to_string()
        };
        assert_eq!(
            error("EffectiveNodeGrace", json!({"override": null, "podGracePeriodSecond": 3})),
            "`podGracePeriodSecond`: unknown field"
        );
        assert_eq!(
            error("AttachSequence", json!({"record": {"version": 1, "accessMode": []}})),
            "`record.accessMode`: unknown field"
        );
        assert_eq!(
            error("AttachSequence", json!({"operations": [{"op": "MayStart", "nod": "n"}]})),
            "`operations[0].nod`: unknown field"
        );
        assert_eq!(
            error("ZoneOf", json!({"labels": {"any": "x"}, "Labels": 1})),
            "`Labels`: unknown field"
        );
        let pod = json!({"pod": {"spec": {"containers": [{"name": "a", "env": [{"nam": "A"}]}]}}});
        assert_eq!(
            error("QoSClass", pod.clone()),
            "`pod.spec.containers[0].env[0].nam`: unknown field; did you mean `name`?"
        );
        // A pod may carry fields of a later Kubernetes.
        let qos = Function::named("QoSClass").unwrap();
        assert_eq!(qos.decide_leniently(&pod).unwrap()["qosClass"], "BestEffort");
    }

    #[test]
    fn only_what_an_answer_may_have_can_be_expected() {
        let check = |name: &str, expected: Value| {
            Function::named(name).unwrap().check_fields(expected.as_object().unwrap())
        };
        let unknown = |field: &str| Err(format!("`{field}`: unknown field"));
        assert_eq!(
            check("AttachSequence", json!({"results": [{"ok": true}], "record": {}})),
            Ok(())
        );
        assert_eq!(check("AttachSequence", json!({"recod": null})), unknown("recod"));
        assert_eq!(
            check("AttachSequence", json!({"results": [{}, {"x": 1}]})),
            unknown("results[1].x")
        );
        assert_eq!(check("DeriveConditions", json!({"conditions": {"Ready": null}})), Ok(()));
    }

    #[test]
    fn requests_and_refusals_name_the_field() {
        let error = |name: &str, request: Value| {
            Function::named(name).unwrap().decide(&request).unwrap_err().to_string()
        };
        assert_eq!(
            error("EffectiveNodeGrace", json!({"current": true})),
            "`current`: invalid type: boolean `true`, expected a 64-bit integer"
        );
        assert!(error("DerivePodPhase", json!({})).starts_with("`pod`: "));
        assert!(error("ZoneOf", json!([])).contains("expected"));
    }

    #[test]
    fn paths_stay_readable() {
        let path = path_below(&path_below("", "conditions"), "berth.io/x");
        assert_eq!(path_below(&path, "status"), "conditions[\"berth.io/x\"].status");
    }
}
