//! Connection: a client of the API server that outlives its credentials. When the kubeconfig, the token, or a
//! certificate is replaced on disk, the next request uses the new one.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tower_service::Service;

use super::KubeOptions;
use super::connect::{ConnectError, Source, client_of};
use crate::reload::{Reloader, Reloads, Watched, read_all};

/// Interval at which the files are compared: an expired token is bridged in about this time.
const LOOK: Duration = Duration::from_secs(1);

/// A connection to the API server.
pub struct Connection {
    client: Client,
    /// The number of renewals so far.
    renewals: watch::Receiver<u64>,
    renewer: Renewer,
}

impl Connection {
    /// Opens a connection to the API server that the options name, without a request.
    ///
    /// # Errors
    /// [`ConnectError`]: a configuration that cannot be read, or credentials that cannot be used.
    pub async fn open(options: &KubeOptions) -> Result<Connection, ConnectError> {
        let source = Source::find(options)?;
        let files = source.files(options.context.as_deref());
        let current = Arc::new(RwLock::new(client_of(source, options).await?));
        let client = Client::new(Current(current.clone()), "default");
        let (renewed, renewals) = watch::channel(0);
        let renewer = Renewer { options: options.clone(), current, renewed, files };
        Ok(Connection { client, renewals, renewer })
    }

    /// The client. Clones share their connections, and are renewed together.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Changes with each renewal.
    #[must_use]
    pub fn renewals(&self) -> watch::Receiver<u64> {
        self.renewals.clone()
    }

    /// Follows the files from now on. Files that cannot be read twice, such as pipes, are left alone.
    pub(crate) fn follow_files(self, reloader: &Reloader) {
        let Connection { renewer, .. } = self;
        match read_all(&renewer.files) {
            Ok(contents) => {
                let watched = Watched::new(WHAT, renewer.files.clone(), &contents).every(LOOK);
                reloader.watch(watched, renewer);
            }
            Err(error) => tracing::warn!("{WHAT}: a change will not be noticed: {error}"),
        }
    }
}

const WHAT: &str = "the credentials for the API server";

/// Makes the client anew when a file has changed.
struct Renewer {
    options: KubeOptions,
    current: Arc<RwLock<Client>>,
    renewed: watch::Sender<u64>,
    files: Vec<PathBuf>,
}

impl Reloads for Renewer {
    fn reload(&mut self, _: &[Vec<u8>]) -> Result<(), String> {
        let source = Source::find(&self.options).map_err(|error| error.to_string())?;
        self.files = source.files(self.options.context.as_deref());
        // A thread that may block has the runtime at hand.
        let client = Handle::current().block_on(client_of(source, &self.options));
        let client = client.map_err(|error| error.to_string())?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = client;
        self.renewed.send_modify(|n| *n += 1);
        Ok(())
    }

    fn note_unreadable(&mut self) {}

    fn files(&self) -> Option<&[PathBuf]> {
        Some(&self.files)
    }
}

/// Sends each request with the client that is current when it is sent.
struct Current(Arc<RwLock<Client>>);

impl Service<Request<Body>> for Current {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = std::pin::Pin<Box<dyn Future<Output = kube::Result<Response<Body>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<kube::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let client = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        Box::pin(async move { client.send(request).await })
    }
}
