//! Presence: tells other replicas where this one is, for as long as it runs.

use std::time::Duration;

use berth_etcd::rpc::TxnRequest;
use berth_etcd::{Client, EtcdError, range, transaction};
use prost::Message as _;

use super::committer::Replica;
use super::layout::{Holder, Layout, decode};
use crate::ledger::LedgerError;

/// Time after which a replica that says nothing counts as gone.
const LEASE: Duration = Duration::from_secs(10);
/// Time until a failed attempt is repeated.
const PAUSE: Duration = Duration::from_secs(1);

/// Keeps the record of this replica there. Runs until it is aborted; then the record ends with its lease.
pub(super) async fn tell(client: Client, layout: Layout, replica: Replica) {
    loop {
        if let Err(error) = hold(&client, &layout, &replica).await {
            tracing::debug!(%error, "other replicas are not told where this one is");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Writes the record and renews its lease until that ends.
async fn hold(client: &Client, layout: &Layout, replica: &Replica) -> Result<(), EtcdError> {
    let (lease, ttl) = client.grant_lease(LEASE).await?;
    let Replica { name, address } = replica.clone();
    let key = layout.replica(&name);
    let put = transaction::put(key, Holder { name, address }.encode_to_vec(), lease);
    client.transact(TxnRequest { success: vec![put], ..TxnRequest::default() }).await?;
    loop {
        tokio::time::sleep(ttl / 4).await;
        if client.renew_lease(lease).await?.is_zero() {
            return Ok(());
        }
    }
}

/// Finds the replica of a name, if it runs.
pub(super) async fn find(
    client: &Client,
    layout: &Layout,
    name: &str,
) -> Result<Option<Replica>, LedgerError> {
    let found = client.range(range::key(layout.replica(name))).await?;
    let holder: Option<Holder> = found.kvs.first().map(decode).transpose()?;
    Ok(holder.map(|Holder { name, address }| Replica { name, address }))
}
