//! The running server: a listener, its connections and the store behind them.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::connection::{Connection, Connections, CutListener};
use crate::faults::Faults;
use crate::http;
use crate::options::Options;
use crate::store::Store;

/// Interval at which the kubelet checks for grace periods that are over.
const KUBELET_INTERVAL: Duration = Duration::from_millis(10);

/// An API server on one address, in plain HTTP/1.1. Dropping it cuts all connections, like a server that is killed
/// (recording 19).
pub struct FakeApiServer {
    address: SocketAddr,
    store: Store,
    faults: Faults,
    connections: Connections,
    tasks: [JoinHandle<()>; 2],
}

impl FakeApiServer {
    /// Starts with an empty store. Fails if the address cannot be listened on.
    pub async fn start(options: Options) -> io::Result<FakeApiServer> {
        let store = Store::new(&options);
        FakeApiServer::start_with(options, store).await
    }

    /// Starts with an existing store. A dropped server is restarted by its address and its store.
    pub async fn start_with(options: Options, store: Store) -> io::Result<FakeApiServer> {
        let listener = TcpListener::bind(options.listen).await?;
        let address = listener.local_addr()?;
        let (faults, connections) = (Faults::default(), Connections::default());
        let router = http::router(options, store.clone(), faults.clone());
        let service = router.into_make_service_with_connect_info::<Connection>();
        let listener = CutListener { listener, connections: connections.clone() };
        let serving = tokio::spawn(async move {
            axum::serve(listener, service).await.ok();
        });
        let kubelet = tokio::spawn(run_kubelet(store.clone()));
        Ok(FakeApiServer { address, store, faults, connections, tasks: [serving, kubelet] })
    }

    /// Address of the listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// URL of the server, `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Text of a kubeconfig whose only context, `fake`, is this server.
    pub fn kubeconfig(&self) -> String {
        let url = self.url();
        format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: fake\n  cluster:\n    server: {url}\nusers:\n- name: fake\n  \
             user: {{}}\ncontexts:\n- name: fake\n  context:\n    cluster: fake\n    user: fake\ncurrent-context: fake\n"
        )
    }

    /// The store of the objects.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The faults, initially none.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Cuts all connections. New ones are accepted.
    pub fn cut_connections(&self) {
        self.connections.cut_all();
    }
}

impl Drop for FakeApiServer {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        self.connections.cut_all();
    }
}

async fn run_kubelet(store: Store) {
    loop {
        tokio::time::sleep(KUBELET_INTERVAL).await;
        store.lock().kubelet_tick();
    }
}
