//! The bare client: posts bindings that it reads from standard input, and does nothing else.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context as _;
use berth_server::apiserver::binding::{PodName, bind};
use berth_server::apiserver::{self, KubeOptions};

/// Number of bindings under way at a time: more than any API server here handles at once.
const CONCURRENCY: usize = 64;

/// Posts the bindings, a line `NAMESPACE NAME NODE` each, and waits to be killed.
pub(crate) fn run(kubeconfig: &str) -> anyhow::Result<()> {
    let mut input = String::new();
    std::io::stdin().read_to_string(&mut input)?;
    let bindings = input.lines().map(|line| {
        let mut words = line.split(' ');
        let mut word = || words.next().context("three words a line");
        let pod = PodName { namespace: word()?.into(), name: word()?.into(), uid: "".into() };
        Ok((pod, word()?.to_owned()))
    });
    let bindings: Arc<Vec<(PodName, String)>> = Arc::new(bindings.collect::<anyhow::Result<_>>()?);
    tokio::runtime::Runtime::new()?.block_on(async {
        let kubeconfig = Some(Path::new(kubeconfig).to_owned());
        let client =
            apiserver::connect(&KubeOptions { kubeconfig, ..KubeOptions::default() }).await?;
        let next = Arc::new(AtomicUsize::new(0));
        let mut workers = tokio::task::JoinSet::new();
        for _ in 0..CONCURRENCY {
            let (client, bindings, next) = (client.clone(), bindings.clone(), next.clone());
            workers.spawn(async move {
                while let Some((pod, node)) = bindings.get(next.fetch_add(1, Ordering::Relaxed)) {
                    bind(&client, pod, node).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(ended) = workers.join_next().await {
            ended??;
        }
        std::future::pending().await
    })
}
