//! A server of the small cluster, called without a socket.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::time::Duration;

use berth_server::feed::file::{self, UnknownFields};
use berth_server::in_process::{CollectedResponse, InProcess};
use berth_server::runtime::{Server, ServerOptions};
use tokio::runtime::{Builder, Runtime};

/// The number of inputs that share a server, because assumed pods, sessions and grants stay with it.
const INPUTS: u32 = 5_000;
/// A time limit for a request. Requests here take less than a hundredth of it; a longer one never ends.
const PATIENCE: Duration = Duration::from_secs(60);

struct Served {
    runtime: Runtime,
    server: Option<Server>,
    services: InProcess,
    n_inputs: u32,
}

impl Served {
    fn new() -> Served {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let server = runtime.block_on(Server::start(ServerOptions::default())).unwrap();
        let dump =
            file::parse(&"world.json".into(), crate::world::OBJECTS, UnknownFields::Warn).unwrap();
        server.load(dump);
        let services = InProcess::of(&server).unwrap();
        Served { runtime, server: Some(server), services, n_inputs: 0 }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            self.runtime.block_on(server.shutdown());
        }
    }
}

/// Calls the services of a server that only this thread uses.
fn with<F: Future<Output = CollectedResponse>>(
    call: impl FnOnce(InProcess) -> F,
) -> CollectedResponse {
    // Not dropped when its thread ends, because the reactor has no thread-local state any more by then.
    thread_local!(static SERVED: RefCell<Option<ManuallyDrop<Served>>> = const { RefCell::new(None) });
    SERVED.with_borrow_mut(|kept| {
        let served = kept.get_or_insert_with(|| ManuallyDrop::new(Served::new()));
        served.n_inputs += 1;
        let call = call(served.services.clone());
        let answer = served.runtime.block_on(async { tokio::time::timeout(PATIENCE, call).await });
        let answer = answer.expect("an answer");
        if served.n_inputs >= INPUTS {
            drop(kept.take().map(ManuallyDrop::into_inner));
        }
        answer
    })
}

/// A gRPC call with one message.
pub(crate) fn call(path: &'static str, message: &[u8]) -> CollectedResponse {
    let message = message.to_owned();
    with(|services| async move { services.call(path, &[&*message]).await })
}

/// An HTTP POST.
pub(crate) fn post(path: &'static str, body: &[u8]) -> CollectedResponse {
    let body = body.to_owned();
    with(|services| async move { services.post(path, body).await })
}

/// An HTTP POST of a body of a content type.
pub(crate) fn post_as(path: &str, content_type: &'static str, body: &[u8]) -> CollectedResponse {
    let (path, body) = (path.to_owned(), body.to_owned());
    with(|services| async move { services.post_as(&path, content_type, body).await })
}
