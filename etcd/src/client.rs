//! The calls, each at one member at a time.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::AsciiMetadataValue;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status, Streaming};

use crate::error::EtcdError;
use crate::options::{ClientOptions, OptionsError, Password};
use crate::rpc::auth_client::AuthClient;
use crate::rpc::kv_client::KvClient;
use crate::rpc::lease_client::LeaseClient;
use crate::rpc::maintenance_client::MaintenanceClient;
use crate::rpc::watch_client::WatchClient;
use crate::rpc::{
    AlarmMember, AlarmRequest, AuthenticateRequest, CompactionRequest, LeaseGrantRequest,
    LeaseKeepAliveRequest, LeaseRevokeRequest, RangeRequest, RangeResponse, ResponseOp,
    StatusRequest, StatusResponse, TxnRequest, TxnResponse, WatchCreateRequest, WatchRequest,
    WatchResponse, watch_request,
};
use crate::transaction;

/// Longest message that is read: a listing of a million records, or a watch's news of a thousand transactions.
const MAX_MESSAGE: usize = 1 << 30;

/// A client of one etcd cluster. Cheap to clone: clones share connections, and which member is asked.
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<Shared>,
    /// Time limit in place of the options'.
    limit: Option<Duration>,
}

#[derive(Debug)]
struct Shared {
    access: Mutex<Arc<Access>>,
    /// Number of the member that is asked, counted on and on.
    current: AtomicUsize,
}

/// Connections with one set of credentials.
#[derive(Debug)]
struct Access {
    members: Vec<Channel>,
    timeout: Duration,
    password: Option<Password>,
    /// Token of the user, until a member no longer takes it.
    token: Mutex<Option<AsciiMetadataValue>>,
}

impl Access {
    fn new(options: &ClientOptions) -> Result<Access, OptionsError> {
        let members = options.members()?;
        Ok(Access {
            members: members.iter().map(tonic::transport::Endpoint::connect_lazy).collect(),
            timeout: options.timeout,
            password: options.password.clone(),
            token: Mutex::default(),
        })
    }

    /// Token of the user; asks for one if there is none.
    async fn token(&self, channel: &Channel) -> Result<Option<AsciiMetadataValue>, Status> {
        let Some(Password { user, password }) = &self.password else { return Ok(None) };
        let known = self.locked_token().clone();
        if known.is_some() {
            return Ok(known);
        }
        let request = AuthenticateRequest { name: user.clone(), password: password.clone() };
        let mut client = AuthClient::new(channel.clone());
        let token = client.authenticate(request).await?.into_inner().token;
        let token: AsciiMetadataValue =
            token.parse().map_err(|_| Status::unavailable("the member's token is not text"))?;
        *self.locked_token() = Some(token.clone());
        Ok(Some(token))
    }

    fn forget_token(&self) -> bool {
        self.locked_token().take().is_some()
    }

    fn locked_token(&self) -> MutexGuard<'_, Option<AsciiMetadataValue>> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An answer that is awaited.
type Awaited<Answer> = Pin<Box<dyn Future<Output = Result<Response<Answer>, Status>> + Send>>;

impl Client {
    /// A client that connects when it is first used. Needs a Tokio runtime.
    ///
    /// # Errors
    /// [`OptionsError`] with the endpoint that cannot be used.
    pub fn new(options: &ClientOptions) -> Result<Client, OptionsError> {
        let access = Mutex::new(Arc::new(Access::new(options)?));
        let shared = Shared { access, current: AtomicUsize::new(0) };
        Ok(Client { shared: Arc::new(shared), limit: None })
    }

    /// A client that shares this one's connections and waits this long for each answer of a member.
    #[must_use]
    pub fn within(&self, limit: Duration) -> Client {
        Client { shared: self.shared.clone(), limit: Some(limit) }
    }

    /// Uses other options from now on, such as a certificate that was renewed. Calls under way end with the old ones.
    ///
    /// # Errors
    /// [`OptionsError`]: the old ones stay in force.
    pub fn renew(&self, options: &ClientOptions) -> Result<(), OptionsError> {
        let access = Arc::new(Access::new(options)?);
        *self.shared.access.lock().unwrap_or_else(PoisonError::into_inner) = access;
        Ok(())
    }

    fn access(&self) -> Arc<Access> {
        self.shared.access.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads a range. Tries each member once, so it may take the time limit for each.
    ///
    /// # Errors
    /// [`EtcdError`], of the last member.
    pub async fn range(&self, request: RangeRequest) -> Result<RangeResponse, EtcdError> {
        self.read(request, |channel, request| {
            Box::pin(async move { kv(channel).range(request).await })
        })
        .await
    }

    /// Reads several ranges at one revision. Tries each member once.
    ///
    /// # Errors
    /// [`EtcdError`], of the last member.
    pub async fn read_together(
        &self,
        ranges: Vec<RangeRequest>,
    ) -> Result<Vec<ResponseOp>, EtcdError> {
        let success = ranges.into_iter().map(transaction::read).collect();
        let request = TxnRequest { success, ..TxnRequest::default() };
        let answer = self.read(request, |channel, request| {
            Box::pin(async move { kv(channel).txn(request).await })
        });
        Ok(answer.await?.responses)
    }

    /// Carries a transaction out, at one member.
    ///
    /// # Errors
    /// [`EtcdError`]: unless [`EtcdError::has_changed_nothing`], it may have been carried out, or may be later.
    pub async fn transact(&self, request: TxnRequest) -> Result<TxnResponse, EtcdError> {
        self.once(request, |channel, request| {
            Box::pin(async move { kv(channel).txn(request).await })
        })
        .await
    }

    /// Forgets what was before a revision. May be repeated.
    ///
    /// # Errors
    /// [`EtcdError`]; [`EtcdError::Compacted`] if that revision is forgotten already.
    pub async fn compact(&self, revision: i64) -> Result<(), EtcdError> {
        let request = CompactionRequest { revision };
        self.once(request, |channel, request| {
            Box::pin(async move { kv(channel).compact(request).await })
        })
        .await
        .map(drop)
    }

    /// Opens a lease of `ttl`, in whole seconds; returns its id and the time that etcd gave it. A lease whose answer was
    /// lost ends by itself.
    ///
    /// # Errors
    /// [`EtcdError`], of the last member.
    pub async fn grant_lease(&self, ttl: Duration) -> Result<(i64, Duration), EtcdError> {
        let ttl = i64::try_from(ttl.as_secs().max(1)).unwrap_or(i64::MAX);
        let request = LeaseGrantRequest { ttl, id: 0 };
        let answer = self
            .read(request, |channel, request| {
                Box::pin(async move { LeaseClient::new(channel).lease_grant(request).await })
            })
            .await?;
        Ok((answer.id, seconds(answer.ttl)))
    }

    /// Renews a lease; returns the time that it has now, from when the request was sent at the earliest. Zero: it is
    /// over.
    ///
    /// # Errors
    /// [`EtcdError`], of the last member.
    pub async fn renew_lease(&self, id: i64) -> Result<Duration, EtcdError> {
        self.at_each_member(|| self.renew_once(id)).await
    }

    async fn renew_once(&self, id: i64) -> Result<Duration, EtcdError> {
        let request = LeaseKeepAliveRequest { id };
        let mut answers = self
            .once(request, |channel, request: Request<LeaseKeepAliveRequest>| {
                let request = request.map(tokio_stream::once);
                Box::pin(async move { LeaseClient::new(channel).lease_keep_alive(request).await })
            })
            .await?;
        let (limit, member) = (self.limit(&self.access()), self.member());
        let answer = in_time(limit, answers.message()).await.and_then(|answer| {
            answer.ok_or_else(|| Status::unavailable("the member ended the stream of renewals"))
        });
        answer.map(|answer| seconds(answer.ttl)).map_err(|status| self.failed(member, status))
    }

    /// Ends a lease, with the keys under it. May be repeated.
    ///
    /// # Errors
    /// [`EtcdError`].
    pub async fn revoke_lease(&self, id: i64) -> Result<(), EtcdError> {
        let request = LeaseRevokeRequest { id };
        self.once(request, |channel, request| {
            Box::pin(async move { LeaseClient::new(channel).lease_revoke(request).await })
        })
        .await
        .map(drop)
    }

    /// Watches a range, at one member.
    ///
    /// # Errors
    /// [`EtcdError`].
    pub async fn watch(&self, request: WatchCreateRequest) -> Result<Watch, EtcdError> {
        let create = watch_request::RequestUnion::CreateRequest(request);
        let (requests, sent) = mpsc::channel(1);
        // Room for one: the channel is new.
        drop(requests.try_send(WatchRequest { request_union: Some(create) }));
        let sent = Mutex::new(Some(sent));
        let answers = self
            .once((), |channel, request: Request<()>| {
                let sent = sent.lock().unwrap_or_else(PoisonError::into_inner).take();
                Box::pin(async move {
                    let Some(sent) = sent else {
                        return Err(Status::unavailable("the member no longer takes the user"));
                    };
                    let request = request.map(|()| ReceiverStream::new(sent));
                    let client = WatchClient::new(channel);
                    client.max_decoding_message_size(MAX_MESSAGE).watch(request).await
                })
            })
            .await?;
        Ok(Watch { client: self.clone(), member: self.member(), answers, _requests: requests })
    }

    /// State of the member that is asked.
    ///
    /// # Errors
    /// [`EtcdError`], of the last member.
    pub async fn status(&self) -> Result<StatusResponse, EtcdError> {
        self.read(StatusRequest {}, |channel, request| {
            Box::pin(async move { MaintenanceClient::new(channel).status(request).await })
        })
        .await
    }

    /// The alarms of all members. Members that ask for a user allow this to `root` only.
    ///
    /// # Errors
    /// [`EtcdError`], of the last member.
    pub async fn alarms(&self) -> Result<Vec<AlarmMember>, EtcdError> {
        let answer = self
            .read(AlarmRequest::default(), |channel, request| {
                Box::pin(async move { MaintenanceClient::new(channel).alarm(request).await })
            })
            .await?;
        Ok(answer.alarms)
    }

    /// Asks one member after the other, until one answers or has a reason that all of them would have.
    async fn read<Q: Clone, A>(
        &self,
        request: Q,
        call: impl Fn(Channel, Request<Q>) -> Awaited<A>,
    ) -> Result<A, EtcdError> {
        self.at_each_member(|| self.once(request.clone(), &call)).await
    }

    /// Makes an attempt, and another one for each further member as long as the failure is that of a member.
    async fn at_each_member<A, F: Future<Output = Result<A, EtcdError>>>(
        &self,
        attempt: impl Fn() -> F,
    ) -> Result<A, EtcdError> {
        let mut attempts = self.access().members.len();
        loop {
            let answer = attempt().await;
            attempts -= 1;
            match answer {
                Err(error) if error.is_of_the_member() && attempts > 0 => {}
                answer => return answer,
            }
        }
    }

    /// Asks the current member. If that fails, the next call asks the next one. A token that is no longer taken is
    /// replaced once: the member has carried nothing out then.
    async fn once<Q: Clone, A>(
        &self,
        request: Q,
        call: impl Fn(Channel, Request<Q>) -> Awaited<A>,
    ) -> Result<A, EtcdError> {
        let (access, member) = (self.access(), self.member());
        let limit = self.limit(&access);
        let ask = |request| in_time(limit, signed(&access, member, request, &call));
        let first = ask(request.clone()).await;
        let answer = match first {
            Err(status) if status.code() == Code::Unauthenticated && access.forget_token() => {
                ask(request).await
            }
            first => first,
        };
        answer.map_err(|status| self.failed(member, status))
    }

    fn limit(&self, access: &Access) -> Duration {
        self.limit.unwrap_or(access.timeout)
    }

    fn member(&self) -> usize {
        // The number alone is shared.
        self.shared.current.load(Ordering::Relaxed)
    }

    /// The error of a failed call; the next call asks another member if it is the member's.
    fn failed(&self, member: usize, status: Status) -> EtcdError {
        let error = EtcdError::from(status);
        if error.is_of_the_member() {
            // Several calls may fail at one member together: only the first of them chooses the next member.
            let (from, to) = (member, member.wrapping_add(1));
            let current = &self.shared.current;
            current.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).ok();
        }
        error
    }
}

/// Asks one member, in the name of the user.
async fn signed<Q, A>(
    access: &Access,
    member: usize,
    request: Q,
    call: impl Fn(Channel, Request<Q>) -> Awaited<A>,
) -> Result<A, Status> {
    let channel = access.members[member % access.members.len()].clone();
    let mut request = Request::new(request);
    if let Some(token) = access.token(&channel).await? {
        request.metadata_mut().insert("token", token);
    }
    call(channel, request).await.map(Response::into_inner)
}

/// The answer, or that the time was up first.
async fn in_time<A>(
    limit: Duration,
    answer: impl Future<Output = Result<A, Status>>,
) -> Result<A, Status> {
    let late = || {
        Status::unavailable(format!("the member did not answer within {} ms", limit.as_millis()))
    };
    tokio::time::timeout(limit, answer).await.unwrap_or_else(|_| Err(late()))
}

/// News of a range.
#[derive(Debug)]
pub struct Watch {
    client: Client,
    member: usize,
    answers: Streaming<WatchResponse>,
    /// etcd ends the watch when this side of the stream ends.
    _requests: mpsc::Sender<WatchRequest>,
}

impl Watch {
    /// The next news. Waits for them as long as it takes.
    ///
    /// # Errors
    /// [`EtcdError`]: the watch is over. [`EtcdError::Compacted`] if changes were missed.
    pub async fn next(&mut self) -> Result<WatchResponse, EtcdError> {
        let ended = || Status::unavailable("the member ended the watch");
        let news = self.answers.message().await.and_then(|news| news.ok_or_else(ended));
        let news = news.map_err(|status| self.client.failed(self.member, status))?;
        if news.compact_revision != 0 {
            return Err(EtcdError::Compacted(format!("oldest kept: {}", news.compact_revision)));
        }
        if news.canceled {
            return Err(EtcdError::Unavailable(news.cancel_reason));
        }
        Ok(news)
    }
}

fn kv(channel: Channel) -> KvClient<Channel> {
    KvClient::new(channel).max_decoding_message_size(MAX_MESSAGE)
}

/// A time to live in etcd's form; it has none below zero but for leases that are over.
fn seconds(ttl: i64) -> Duration {
    Duration::from_secs(u64::try_from(ttl).unwrap_or_default())
}
