//! Replica: follows the reservations in a ledger that several servers share, and writes them while this one commits.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use crate::clock;
use crate::feed::position::Position;
use crate::ledger::{LedgerError, Listed, News, Role, Term};
use crate::service::{Follower, PREFIXES, Replicas, Requests, State};

/// Time until a failed attempt is repeated.
const PAUSE: Duration = Duration::from_millis(300);
/// Interval at which etcd's members are asked for the last commit.
const CHECK: Duration = Duration::from_secs(1);
/// Time for which news may be missing that most members have, before another member is followed.
const MAX_LAG: Duration = Duration::from_secs(3);
/// Time for which a committer whose feed is behind waits, before it leaves its part to another replica.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// Reason why a round has ended.
#[derive(Debug, thiserror::Error)]
enum RoundError {
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error("no thread can be started that writes reservations: {0}")]
    Thread(#[from] std::io::Error),
    #[error("the member of etcd that is followed does not have what the others have")]
    Behind,
    #[error("a change of reservations could not be applied: a bug")]
    Broken,
    #[error("{0}; another replica may commit")]
    FeedBehind(crate::feed::position::Behind),
}

/// One replica at its work.
struct Work {
    state: Arc<State>,
    replicas: Arc<Replicas>,
    follower: Arc<Mutex<Follower>>,
    reached: watch::Receiver<Position>,
}

/// Follows and commits. Runs until it is aborted; ends at once where the ledger is not shared.
pub(super) fn follow(state: &Arc<State>) -> impl Future<Output = ()> + Send + use<> {
    let fed = state
        .replicas
        .is_some()
        .then(|| (state.freshness.begin_restore(), Follower::new(state.assumptions.clone())));
    let state = state.clone();
    async move {
        let (Some((mut fed, follower)), Some(replicas)) = (fed, state.replicas.clone()) else {
            return;
        };
        let follower = Arc::new(Mutex::new(follower));
        if fed.wait_for(|&is_fed| is_fed).await.is_err() {
            return;
        }
        let checking = tokio::spawn(check(replicas.clone()));
        let _checking = AbortOnDrop(checking);
        let reached = state.freshness.positions().reached();
        let mut work = Work { state, replicas, follower, reached };
        loop {
            if let Err(error) = work.round().await {
                let text = error.to_string();
                if work.replicas.trouble().as_ref() != Some(&text) {
                    tracing::warn!(%error, "reservations of other replicas cannot be followed now");
                }
                work.replicas.set_trouble(Some(text));
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Asks for the last commit again and again.
async fn check(replicas: Arc<Replicas>) {
    let mut tick = tokio::time::interval(CHECK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let asked = clock::now();
        if let Ok(last) = replicas.etcd().last().await {
            replicas.note_last(last, asked);
        }
    }
}

impl Work {
    /// Reads everything, and then follows or commits until that ends.
    async fn round(&mut self) -> Result<(), RoundError> {
        let mut role = self.replicas.etcd().role();
        let is_committer = match &*role.borrow_and_update() {
            Role::Committer { term } => Some(*term),
            Role::Unknown | Role::Follower { .. } | Role::Elected | Role::Resigned => None,
        };
        let mut listed = self.replicas.etcd().list_all(&PREFIXES).await?;
        let records = std::mem::take(&mut listed.records).into_iter();
        let records: Vec<_> = records.map(|(key, entry)| (key, Some(entry.value))).collect();
        let reached = self.reached.borrow_and_update().clone();
        self.on_follower(move |it| it.begin(records, &reached, clock::now())).await??;
        self.replicas.note_applied(listed.last);
        self.replicas.set_trouble(None);
        self.state.freshness.end_restore();
        match is_committer {
            Some(term) => self.commit(term, &mut role).await,
            None => self.follow(&listed, &mut role).await,
        }
    }

    /// Applies what others commit, until this replica commits or nothing more comes.
    async fn follow(
        &mut self,
        listed: &Listed,
        role: &mut watch::Receiver<Role>,
    ) -> Result<(), RoundError> {
        let mut following = self.replicas.etcd().follow(listed).await?;
        let mut tick = tokio::time::interval(CHECK);
        loop {
            tokio::select! {
                news = following.next() => self.apply(news?).await?,
                Ok(()) = role.changed() => {
                    if role.borrow_and_update().is_committer() {
                        role.mark_changed();
                        return Ok(());
                    }
                }
                Ok(()) = self.reached.changed() => self.end_lingering().await?,
                _ = tick.tick() => {
                    if self.replicas.lag(clock::now()) >= MAX_LAG {
                        return Err(RoundError::Behind);
                    }
                }
            }
        }
    }

    async fn apply(&mut self, news: News) -> Result<(), RoundError> {
        let News { changes, last } = news;
        if !changes.is_empty() {
            let reached = self.reached.borrow().clone();
            self.on_follower(move |it| it.apply(changes, &reached, clock::now())).await??;
        }
        if let Some(last) = last {
            self.replicas.note_applied(last);
        }
        Ok(())
    }

    async fn end_lingering(&mut self) -> Result<(), RoundError> {
        let reached = self.reached.borrow_and_update().clone();
        self.on_follower(move |it| it.end_lingering(&reached)).await
    }

    /// Commits until the term is over.
    async fn commit(
        &mut self,
        term: Term,
        role: &mut watch::Receiver<Role>,
    ) -> Result<(), RoundError> {
        let is_over = |role: &Role| *role != Role::Committer { term };
        let follower = self.follower.clone();
        let behind = move |reached: &Position| {
            follower.lock().unwrap_or_else(PoisonError::into_inner).behind(reached)
        };
        if let Some(behind) = behind(&self.reached.borrow()) {
            tracing::info!(%behind, "this replica waits before it assumes pods");
            self.replicas.set_trouble(Some(behind.to_string()));
        }
        let mut reached = self.reached.clone();
        tokio::select! {
            () = async { drop(reached.wait_for(|reached| behind(reached).is_none()).await) } => {}
            () = async { drop(role.wait_for(is_over).await) } => return Ok(()),
            () = tokio::time::sleep(MAX_WAIT) => {
                self.replicas.etcd().pass_on().await;
                let reached = self.reached.borrow().clone();
                return behind(&reached).map_or(Ok(()), |it| Err(RoundError::FeedBehind(it)));
            }
        }
        self.end_lingering().await?;
        let (ledger, freshness) =
            (self.state.grants.ledger().clone(), self.state.freshness.clone());
        let claimed = move || freshness.positions().claimed();
        let listed = self.replicas.etcd().list_all(&Requests::PREFIXES).await?.records.into_iter();
        let requests = Requests::read(listed.map(|(key, entry)| (key, entry.value)))?;
        let responses = self.state.responses.clone();
        // Greater than what another one has told, also if the clock of that one was ahead.
        let least_token = clock::unix_micros();
        self.on_follower(move |it| {
            let now = (clock::now(), least_token);
            it.take_over(ledger, term, claimed, (requests, &responses), now)
        })
        .await??;
        self.replicas.set_trouble(None);
        tracing::info!(term = term.0, "this replica assumes pods for all");
        // Nothing is sent any more only if the ledger is gone.
        drop(role.wait_for(is_over).await);
        self.on_follower(Follower::hand_over).await
    }

    /// Runs a change on a thread that may block.
    async fn on_follower<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut Follower) -> T + Send + 'static,
    ) -> Result<T, RoundError> {
        let (follower, state) = (self.follower.clone(), self.state.clone());
        let changing = tokio::task::spawn_blocking(move || {
            let _busy = state.long_write();
            change(&mut follower.lock().unwrap_or_else(PoisonError::into_inner))
        });
        changing.await.map_err(|_| RoundError::Broken)
    }
}
