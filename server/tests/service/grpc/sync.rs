//! `ClusterService.Sync`: snapshots and deltas over one stream.

use berth_proto::berth_v1::delta::Change;
use berth_proto::berth_v1::sync_request::Message;
use berth_proto::berth_v1::{
    BeginSnapshot, Delta, DeltaBatch, EndSnapshot, PlaceMode, SyncRequest, SyncResponse,
};
use berth_server::runtime::Limits;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use crate::grpc::world::{World, bound, key, node, options, pod};

struct Feed {
    requests: mpsc::Sender<SyncRequest>,
    answers: Streaming<SyncResponse>,
}

impl Feed {
    async fn open(world: &mut World) -> Feed {
        let (requests, receiver) = mpsc::channel(64);
        let answers = world.cluster.sync(ReceiverStream::new(receiver)).await.unwrap().into_inner();
        Feed { requests, answers }
    }

    async fn say(&mut self, message: Message) -> Result<SyncResponse, Status> {
        self.requests.send(SyncRequest { message: Some(message) }).await.unwrap();
        self.answers.message().await.map(|answer| answer.expect("an answer to every request"))
    }

    async fn end(self) -> Result<Option<SyncResponse>, Status> {
        let Feed { requests, mut answers } = self;
        drop(requests);
        answers.message().await
    }
}

const BEGIN: Message = Message::BeginSnapshot(BeginSnapshot {});
const END: Message = Message::EndSnapshot(EndSnapshot { position: 0 });

fn batch(changes: impl IntoIterator<Item = Change>) -> Message {
    Message::Batch(DeltaBatch {
        deltas: changes.into_iter().map(|change| Delta { change: Some(change) }).collect(),
        position: 0,
    })
}

#[tokio::test]
async fn a_snapshot_appears_in_one_generation() {
    let mut world = World::start().await;
    world
        .apply([Change::UpsertNode(node("old", "4")), Change::UpsertPod(bound("old", "1", "old"))])
        .await;
    let mut feed = Feed::open(&mut world).await;
    let begun = feed.say(BEGIN).await.unwrap();
    let added = feed
        .say(batch([
            Change::UpsertNode(node("n1", "4")),
            Change::UpsertNode(node("bad", "x")),
            Change::UpsertPod(bound("p", "1", "n1")),
            Change::UpsertPod(bound("gone", "1", "n1")),
            Change::DeletePod(key("gone")),
        ]))
        .await
        .unwrap();
    assert_eq!((begun.sequence, added.sequence), (0, 1));
    assert_eq!(
        begun.generation, added.generation,
        "nothing is published while a snapshot is collected"
    );
    assert_eq!(added.rejections.len(), 1);
    assert_eq!(
        (added.rejections[0].index, added.rejections[0].field.as_str()),
        (1, "status.allocatable[cpu]")
    );
    assert_eq!(world.list_nodes().await[0].name, "old");

    let ended = feed.say(END).await.unwrap();
    assert!(ended.generation > begun.generation);
    assert_eq!(ended.rejections, []);
    let counts = world.counts().await;
    assert_eq!(
        (counts.generation, counts.n_nodes, counts.n_pods, counts.n_orphaned_pods),
        (ended.generation, 1, 1, 0)
    );

    let after = feed
        .say(batch([Change::UpsertNode(node("n2", "4")), Change::DeleteNode(String::new())]))
        .await
        .unwrap();
    assert_eq!((after.sequence, after.rejections[0].index), (3, 1));
    assert_eq!(world.counts().await.n_nodes, 2);
    assert_eq!(feed.end().await.unwrap(), None);
}

#[tokio::test]
async fn assumed_pods_outlive_a_snapshot_that_does_not_know_them() {
    let mut world = World::start().await;
    world.nodes(1, 4).await;
    world.place(pod("mine", "1"), PlaceMode::Assume).await.unwrap();
    let mut feed = Feed::open(&mut world).await;
    feed.say(BEGIN).await.unwrap();
    feed.say(batch([Change::UpsertNode(node("n0", "4"))])).await.unwrap();
    feed.say(END).await.unwrap();
    assert_eq!(world.counts().await.n_assumed_pods, 1);
    feed.say(batch([Change::UpsertPod(bound("mine", "1", "n0"))])).await.unwrap();
    let counts = world.counts().await;
    assert_eq!((counts.n_assumed_pods, counts.n_pods), (0, 1), "a feed confirms it");
}

#[tokio::test]
async fn messages_out_of_order_end_the_stream() {
    let mut world = World::start().await;
    let check = async |world: &mut World, messages: Vec<Message>, reason: &str| {
        let mut feed = Feed::open(world).await;
        let mut last = Ok(None);
        for message in messages {
            last = feed.say(message).await.map(Some);
        }
        let status = match last {
            Err(status) => status,
            Ok(_) => feed.end().await.unwrap_err(),
        };
        assert_eq!((status.code(), status.message()), (Code::InvalidArgument, reason));
    };
    check(&mut world, vec![END], "message out of order: `end_snapshot` without `begin_snapshot`")
        .await;
    check(
        &mut world,
        vec![BEGIN, BEGIN],
        "message out of order: `begin_snapshot` inside a snapshot",
    )
    .await;
    check(
        &mut world,
        vec![BEGIN, batch([])],
        "message out of order: the stream ended before `end_snapshot`",
    )
    .await;
    let mut feed = Feed::open(&mut world).await;
    feed.requests.send(SyncRequest { message: None }).await.unwrap();
    assert_eq!(feed.answers.message().await.unwrap_err().message(), "`message`: must be set");
    assert_eq!(world.counts().await.n_nodes, 0);
}

#[tokio::test]
async fn a_snapshot_beyond_its_bound_is_refused_and_changes_nothing() {
    let limits = Limits { max_snapshot_objects: 3, ..Limits::default() };
    let mut world = World::with(berth_server::runtime::ServerOptions { limits, ..options() }).await;
    let mut feed = Feed::open(&mut world).await;
    feed.say(BEGIN).await.unwrap();
    let nodes = |range: std::ops::Range<u32>| {
        batch(range.map(|i| Change::UpsertNode(node(&format!("n{i}"), "1"))))
    };
    feed.say(nodes(0..3)).await.unwrap();
    feed.say(nodes(0..3)).await.unwrap();
    let status = feed.say(nodes(3..4)).await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::ResourceExhausted, "the snapshot holds more than 3 objects")
    );
    assert_eq!(world.counts().await.n_nodes, 0);
}

#[tokio::test]
async fn many_requests_may_be_under_way_and_are_answered_in_order() {
    let mut world = World::start().await;
    let mut feed = Feed::open(&mut world).await;
    let requests = feed.requests.clone();
    let sender = tokio::spawn(async move {
        for i in 0..200u32 {
            let message =
                Some(batch((0..100).map(|j| Change::UpsertPod(pod(&format!("p{i}-{j}"), "1")))));
            requests.send(SyncRequest { message }).await.unwrap();
        }
    });
    let mut generation = 0;
    for sequence in 0..200 {
        let answer = feed.answers.message().await.unwrap().unwrap();
        assert_eq!((answer.sequence, answer.rejections.len()), (sequence, 0));
        assert!(answer.generation > generation);
        generation = answer.generation;
    }
    sender.await.unwrap();
    assert_eq!(world.counts().await.n_pending_pods, 20_000);
}
