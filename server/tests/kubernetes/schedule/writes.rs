//! Writes to the API server: bindings, evictions and conditions, as a real API server recorded them.

use berth_proto::core_v1;
use berth_server::apiserver::binding::{BindError, PodName, bind};
use berth_server::apiserver::deletion::evict;
use berth_server::apiserver::leadership::Mandate;
use berth_server::apiserver::status::{
    NominatedNode, SchedulingStatus, disruption_target, is_gone, nominated, patch_status,
};
use serde_json::json;

use crate::schedule::world::{World, text};

fn named(pod: &serde_json::Value) -> PodName {
    PodName {
        namespace: "default".into(),
        name: text(&pod["metadata"]["name"]).into(),
        uid: text(&pod["metadata"]["uid"]).into(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_binding_is_refused_even_to_the_same_node() {
    let (world, client) = world_and_client().await;
    let web = named(&world.pod("web", "1"));
    assert_eq!(bind(&client, &web, "n1").await, Ok(()));
    let there = Err(BindError::AlreadyBound { node: "n1".to_owned() });
    assert_eq!(bind(&client, &web, "n2").await, there);
    assert_eq!(bind(&client, &web, "n1").await, there);
    assert_eq!(world.api.store().bindings().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_is_looked_up() {
    let (world, client) = world_and_client().await;
    let web = named(&world.pod("web", "1"));
    world.api.faults().only("/binding");
    world.api.faults().lose_answer(1.0);
    assert_eq!(bind(&client, &web, "n1").await, Ok(()));
    assert_eq!(world.api.store().bindings().len(), 1);
    // The read of the pod fails too.
    let other = named(&world.pod("other", "1"));
    world.api.faults().only("/pods/other");
    world.api.faults().refuse(1.0, 500);
    let unknown = bind(&client, &other, "n1").await;
    assert!(matches!(unknown, Err(BindError::Unreachable { .. })), "{unknown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_cannot_be_bound_say_why() {
    let (world, client) = world_and_client().await;
    let gone = PodName { name: "nobody".into(), ..named(&world.pod("web", "1")) };
    assert_eq!(bind(&client, &gone, "n1").await, Err(BindError::Gone));
    let former = PodName { uid: "another".into(), ..named(&world.get("web")) };
    assert_eq!(bind(&client, &former, "n1").await, Err(BindError::Gone));
    let gates = json!({"schedulingGates": [{"name": "example.com/wait"}]});
    let gated = named(&world.pod_with("gated", "1", gates, json!({})));
    let refused = bind(&client, &gated, "n1").await;
    assert!(
        matches!(&refused, Err(BindError::Refused { code: 409, message }) if message.contains("schedulingGates")),
        "{refused:?}"
    );
    world.api.faults().refuse(1.0, 429);
    let busy = bind(&client, &named(&world.get("web")), "n1").await;
    assert!(matches!(busy, Err(BindError::Refused { code: 429, .. })), "{busy:?}");
    assert!(world.api.store().bindings().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_eviction_is_marked_first_and_never_hits_a_successor() {
    let (world, client) = world_and_client().await;
    world.api.store().set_auto_kubelet(false);
    let victim = named(&world.pod_with("victim", "1", json!({"nodeName": "n1"}), json!({})));
    let mark = disruption_target("berth", 1, 0);
    let former = PodName { uid: "another".into(), ..victim.clone() };
    assert_eq!(
        evict(&client, &Mandate::unlimited(), &former, &mark).await,
        Ok(()),
        "it is gone, as it was to be"
    );
    assert!(world.condition("victim", "DisruptionTarget").is_null());
    world.api.faults().lose_answer(0.5);
    assert_eq!(evict(&client, &Mandate::unlimited(), &victim, &mark).await, Ok(()));
    world.api.faults().none();
    assert_eq!(world.condition("victim", "DisruptionTarget")["reason"], "PreemptionByScheduler");
    let metadata = world.get("victim")["metadata"].clone();
    assert!(!metadata["deletionTimestamp"].is_null());
    assert_eq!(metadata["deletionGracePeriodSeconds"], 30, "the pod's own");
    let nobody = PodName { name: "nobody".into(), ..victim };
    assert_eq!(evict(&client, &Mandate::unlimited(), &nobody, &mark).await, Ok(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_is_merged_and_kept_from_a_successor() {
    let (world, client) = world_and_client().await;
    let web = named(&world.pod("web", "1"));
    let set = NominatedNode::Set("n1".to_owned());
    let patch = nominated(&SchedulingStatus::default(), &set).expect("a change");
    let former = PodName { uid: "another".into(), ..web.clone() };
    let failure = patch_status(&client, &Mandate::unlimited(), &former, &patch)
        .await
        .expect_err("another pod");
    assert!(is_gone(&failure), "{failure}");
    patch_status(&client, &Mandate::unlimited(), &web, &patch).await.expect("the pod");
    assert_eq!(world.get("web")["status"]["nominatedNodeName"], "n1");
    let status = core_v1::PodStatus { nominated_node_name: "n1".to_owned(), ..Default::default() };
    let patch =
        nominated(&SchedulingStatus::of(&status), &NominatedNode::Cleared).expect("a change");
    patch_status(&client, &Mandate::unlimited(), &web, &patch).await.expect("the pod");
    assert_eq!(text(&world.get("web")["status"]["nominatedNodeName"]), "");
}

async fn world_and_client() -> (World, kube::Client) {
    let world = World::new().await;
    world.node("n1", 8);
    let client = world.client().await;
    (world, client)
}
