//! More connections than file descriptors: connected callers are served, the others wait, and afterwards everything
//! works again.

use std::time::{Duration, Instant};

use berth_client::Client;
use tokio::net::TcpStream;

use crate::served::{PATIENCE, Served, cluster_file, serve_after};

#[tokio::test]
async fn running_out_of_descriptors_passes() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster_file(directory.path());
    let mut served = Served::start(serve_after("ulimit -n 64").args(["--cluster", &cluster]));
    served.eventually("/readyz", |body| body == "ok").await;
    let client = Client::connect(&served.url, 1).await.unwrap();
    let address = served.url.trim_start_matches("http://").to_owned();
    // The kernel accepts them in place of the server. They are fewer than its queue holds, or connecting would wait.
    let mut crowd = Vec::new();
    for _ in 0..100 {
        crowd.push(TcpStream::connect(&address).await.unwrap());
        crowd.push(TcpStream::connect(served.http).await.unwrap());
    }
    let start = Instant::now();
    while !served.log().to_lowercase().contains("too many open files") {
        assert!(start.elapsed() < PATIENCE, "nothing is said:\n{}", served.log());
        assert!(served.is_running(), "{}", served.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // A connected caller is served.
    let cluster = client.get_cluster().await.unwrap();
    assert_eq!(cluster.n_nodes, 1);
    drop(crowd);
    // A new caller is served too, once the server has noticed that the others are gone.
    served.eventually("/readyz", |body| body == "ok").await;
    let later = Client::connect(&served.url, 1).await.unwrap();
    assert_eq!(later.get_cluster().await.unwrap().n_nodes, 1);
    let n_lines = served.log().lines().count();
    assert!(n_lines < 1_000, "{n_lines} lines of log for one fault");
    drop((client, later));
    served.stop();
}
