//! Tokens that change while the server runs.

use berth_proto::berth_v1::GetClusterRequest;
use tonic::Code;

use crate::roles::http::ask;
use crate::roles::world::{PATIENCE, TOKENS, World, by};

async fn get(world: &World, user: &str) -> Code {
    match world.cluster().get_cluster(by(user, GetClusterRequest::default())).await {
        Ok(_) => Code::Ok,
        Err(status) => status.code(),
    }
}

async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, waiting).await.is_ok(), "never came true: {what}");
}

async fn n_failures(world: &World) -> String {
    let headers = "Authorization: Bearer token-of-new\r\n";
    let reply = ask(world.server.http_address(), "GET /metrics", headers).await;
    let line = "berth_auth_reloads_total{outcome=\"failure\"} ";
    let line = reply.body.lines().find_map(|found| found.strip_prefix(line));
    line.unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_new_file_counts_and_a_bad_one_does_not() {
    let world = World::start().await;
    let path = world.path("tokens.csv");
    assert_eq!(
        (get(&world, "jane").await, get(&world, "new").await),
        (Code::Ok, Code::Unauthenticated)
    );
    let new = TOKENS.replace("token-of-jane", "token-of-new");
    // Replaces the file as an editor or a kubelet does.
    std::fs::write(world.path("tokens.new"), new).unwrap();
    std::fs::rename(world.path("tokens.new"), &path).unwrap();
    eventually("the new token counts", async || get(&world, "new").await == Code::Ok).await;
    assert_eq!(get(&world, "jane").await, Code::Unauthenticated);
    assert_eq!(n_failures(&world).await, "0");
    std::fs::write(&path, "token-of-late,late\n").unwrap();
    eventually("the bad file is counted", async || n_failures(&world).await == "1").await;
    assert_eq!(
        (get(&world, "late").await, get(&world, "new").await),
        (Code::Unauthenticated, Code::Ok)
    );
    std::fs::remove_file(&path).unwrap();
    eventually("the missing file is counted", async || n_failures(&world).await == "2").await;
    assert_eq!(get(&world, "new").await, Code::Ok);
}
