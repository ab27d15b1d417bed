//! The journal of the ledger: every change, in the order of revisions.

use berth_proto::berth_v1::{LedgerRecord, ListLedgerRecordsRequest};

use crate::cli::CliError;
use crate::cli::asked::Asked;
use crate::cli::lifecycle::moment;
use crate::cli::output::Table;

/// Number of records in one response.
const PER_PAGE: u32 = 1_000;

/// Every record after a revision, the oldest first.
pub(super) async fn after(server: &Asked, revision: u64) -> Result<Vec<LedgerRecord>, CliError> {
    let (mut after_revision, mut records) = (revision, Vec::new());
    loop {
        let request = ListLedgerRecordsRequest { after_revision, page_size: PER_PAGE };
        let page = server.client.lifecycle().list_ledger_records(request).await;
        let page = server.answer(page)?;
        let Some(last) = page.records.last().map(|record| record.revision) else {
            return Ok(records);
        };
        records.extend(page.records);
        if last >= page.revision || last <= after_revision {
            return Ok(records);
        }
        after_revision = last;
    }
}

/// The records as a table.
pub(super) fn table(records: &[LedgerRecord]) -> String {
    let mut table = Table::new(&[
        "REVISION", "TIME", "USER", "CHANGE", "SUBJECT", "OUTCOME", "POD UID", "NODE", "WHY",
    ])
    .wrapping(8)
    .dropping([6, 7, 5, 2]);
    for record in records {
        let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
        let time = moment::absolute(record.time.as_ref());
        table.add_row([
            record.revision.to_string(),
            time,
            or_dash(&record.actor),
            record.operation.clone(),
            record.subject.clone(),
            record.outcome.clone(),
            or_dash(&record.pod_uid),
            or_dash(&record.node_name),
            why(record),
        ]);
    }
    table.text()
}

/// What a change rests on, and what is dangerous about it.
fn why(record: &LedgerRecord) -> String {
    let mut parts: Vec<String> = Vec::new();
    if !record.entitlement.is_empty() {
        parts.push(record.entitlement.clone());
    }
    match record.verified {
        Some(true) => parts.push("verified".to_owned()),
        Some(false) => parts.push("on the caller's word".to_owned()),
        None => {}
    }
    if record.is_unsafe {
        parts.push("data may be lost".to_owned());
    }
    parts.join(", ")
}
