//! `DecisionService` of a server that records: its decisions are listed, had, watched, made again and compared; and of one
//! that does not.

use berth_proto::berth_v1::decision_service_client::DecisionServiceClient;
use berth_proto::berth_v1::{
    AttemptKind, BatchEntry, CompareRequest, DecisionOutcome, ExplainResponse, GetDecisionRequest,
    ListDecisionsRequest, NamedPolicy, PlaceBatchRequest, PlaceMode, RecordedDecision,
    ReplayDecisionRequest, WatchDecisionsRequest, decision, place_result,
};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::reservations::{Client, cluster, pod};
use crate::served::{Served, serve};

fn reason(status: &Status) -> Option<String> {
    status.get_error_details().error_info().map(|info| info.reason.clone())
}

async fn place(client: &mut Client, name: &str, replicas: u32) {
    let entries = vec![BatchEntry { pod: Some(pod(name).into()), replicas }];
    let mode = PlaceMode::Assume.into();
    let request = PlaceBatchRequest { entries, mode, ..PlaceBatchRequest::default() };
    client.place_batch(request).await.unwrap();
}

/// The account of a pod of a batch counts the pods before it.
fn assert_is_accounted_for(recorded: &RecordedDecision, account: ExplainResponse) {
    let now = account.decision.unwrap().outcome.unwrap();
    let Some(place_result::Result::Decision(then)) = recorded.result.clone().unwrap().result else {
        panic!("{recorded:?}")
    };
    match (now, then.outcome.unwrap()) {
        (decision::Outcome::Placement(now), decision::Outcome::Placement(then)) => {
            assert_eq!((now.node_name, now.total_score), (then.node_name, then.total_score));
        }
        (decision::Outcome::Unschedulable(now), decision::Outcome::Unschedulable(then)) => {
            assert_eq!(now.message, then.message);
        }
        other => panic!("{other:?}"),
    }
    assert!(!account.nodes.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn recorded_decisions_are_found_and_made_again() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster(directory.path());
    let journal = directory.path().join("journal");
    let served = Served::start(serve().args(["--cluster", &cluster, "--journal"]).arg(&journal));
    served.wait_for("loaded");
    let mut client = Client::connect(served.url.clone()).await.unwrap();
    let mut decisions = DecisionServiceClient::connect(served.url.clone()).await.unwrap();

    let watched = WatchDecisionsRequest { pod_name: "web".to_owned(), ..Default::default() };
    let mut watched = decisions.watch(watched).await.unwrap().into_inner();
    place(&mut client, "other", 3).await;
    place(&mut client, "web", 250).await;
    let told = watched.message().await.unwrap().unwrap();
    assert_eq!(told.decision.unwrap().pod.unwrap().name, "web-0");
    assert!(told.time.is_some());
    // A stream that nobody reads keeps the server from ending at once.
    drop(watched);

    let request = ListDecisionsRequest { page_size: 100, ..ListDecisionsRequest::default() };
    let mut listed = Vec::new();
    // They are there within a second.
    while listed.len() < 253 {
        listed.clear();
        let mut request = request.clone();
        loop {
            let page = decisions.list(request.clone()).await.unwrap().into_inner();
            listed.extend(page.decisions);
            request.page_token = page.next_page_token;
            if request.page_token.is_empty() {
                break;
            }
        }
    }
    assert_eq!(listed.len(), 253);
    let name = |at: usize| listed[at].pod.as_ref().unwrap().name.as_str();
    assert_eq!((name(0), name(249), name(250)), ("web-249", "web-0", "other-2"));
    assert_eq!(listed[0].kind(), AttemptKind::Batch);

    // The cluster has room for 200.
    let outcome = DecisionOutcome::Unschedulable.into();
    let refused = ListDecisionsRequest { outcome, page_size: 1_000, ..request };
    let refused = decisions.list(refused).await.unwrap().into_inner().decisions;
    assert_eq!(refused.len(), 53);

    for recorded in [&refused[0], &listed[200]] {
        let id = recorded.id.clone();
        let whole =
            decisions.get(GetDecisionRequest { id: id.clone() }).await.unwrap().into_inner();
        assert_eq!(whole.recorded.as_ref(), Some(recorded));
        assert_eq!(whole.n_pods, 250);
        let again = ReplayDecisionRequest { id, node_names: Vec::new() };
        let again = decisions.replay(again).await.unwrap().into_inner();
        assert!(again.same);
        assert_eq!(again.result, recorded.result);
        assert_is_accounted_for(recorded, again.explanation.unwrap());
    }

    let policies = vec![NamedPolicy { name: "default".to_owned(), ..NamedPolicy::default() }];
    let asked = CompareRequest { policies, include_recorded: true, until_full: false };
    let compared = decisions.compare(asked).await.unwrap().into_inner();
    let figures: Vec<_> = compared.policies.iter().map(|it| (&*it.name, it.n_placed)).collect();
    assert_eq!(figures, [("recorded", 200), ("default", 200)]);

    let status = decisions.get(GetDecisionRequest { id: "7".to_owned() }).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    let status = decisions.get(GetDecisionRequest { id: "7-0-0".to_owned() }).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    served.stop();
}

fn policies(configurations: &[&str]) -> CompareRequest {
    let policy =
        |text: &&str| NamedPolicy { name: "a".to_owned(), configuration: (*text).to_owned() };
    let policies = configurations.iter().map(policy).collect();
    CompareRequest { policies, ..CompareRequest::default() }
}

/// Whatever is sent in place of policies is refused with its field, and the server goes on.
#[tokio::test(flavor = "multi_thread")]
async fn garbage_in_place_of_policies_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster(directory.path());
    let journal = directory.path().join("journal");
    let served = Served::start(serve().args(["--cluster", &cluster, "--journal"]).arg(&journal));
    served.wait_for("loaded");
    let mut decisions = DecisionServiceClient::connect(served.url.clone()).await.unwrap();
    let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
    // Nine times nine times nine copies of each other.
    let mut bomb = format!("{head}a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for n in 1..9 {
        bomb.push_str(&format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 9].join(", ")));
    }
    let garbage = [
        "\u{0}\u{1}\u{fffd}",
        "{",
        "a: b: c",
        "kind: Pod",
        "[1, 2, 3]",
        &format!("{head}profiles: 7\n"),
        &format!(
            "{head}profiles: [{{schedulerName: a, plugins: {{score: {{enabled: [{{name: No}}]}}}}}}]\n"
        ),
        &bomb,
        &"[".repeat(100_000),
        &"{a: ".repeat(100_000),
        &"x".repeat(2 << 20),
        &format!("{head}# {}\nprofiles: 7\n", "x".repeat(2 << 20)),
        &format!("---\n{head}").repeat(10_000),
    ];
    for text in garbage {
        let status = decisions.compare(policies(&["", text])).await.unwrap_err();
        let what = format!("{:.60}: {:.200}", text, status.to_string());
        assert_eq!(status.code(), Code::InvalidArgument, "{what}");
        assert!(status.message().contains("policies[1].configuration"), "{what}");
        assert!(status.message().len() < 2_000, "{what}");
    }
    let long = NamedPolicy { name: "x".repeat(1 << 20), ..NamedPolicy::default() };
    let long = CompareRequest { policies: vec![long], ..CompareRequest::default() };
    for (request, field) in [
        (policies(&[]), "policies"),
        (policies(&[""; 5]), "policies"),
        (
            CompareRequest { until_full: true, include_recorded: true, ..policies(&[""]) },
            "include_recorded",
        ),
        (long, "policies[0].name"),
    ] {
        let status = decisions.compare(request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        assert!(status.message().contains(field), "{status}");
    }
    // More than a message may have is refused before anything of it is read.
    let huge = policies(&[&"x".repeat(64 << 20)]);
    let status = decisions.compare(huge).await.unwrap_err();
    assert!(matches!(status.code(), Code::OutOfRange | Code::ResourceExhausted), "{status}");
    let mut decisions = DecisionServiceClient::connect(served.url.clone()).await.unwrap();
    assert_eq!(decisions.compare(policies(&[""])).await.unwrap().into_inner().policies.len(), 1);
    served.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_a_journal_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster(directory.path());
    let served = Served::start(serve().args(["--cluster", &cluster]));
    served.wait_for("loaded");
    let mut decisions = DecisionServiceClient::connect(served.url.clone()).await.unwrap();
    let status = decisions.list(ListDecisionsRequest::default()).await.unwrap_err();
    assert_eq!(
        (status.code(), reason(&status)),
        (Code::FailedPrecondition, Some("NO_JOURNAL".into()))
    );
    let status = decisions.compare(policies(&[""])).await.unwrap_err();
    assert_eq!(reason(&status), Some("NO_JOURNAL".into()), "{status}");
    let watched = decisions.watch(WatchDecisionsRequest::default()).await;
    assert!(watched.is_ok());
    served.stop();
}
