//! Records and journal lines as a file may hold them, and the requests that are decided on them.

use std::sync::{Arc, Mutex};

use berth_proto::berth_v1 as v1;
use berth_server::ledger::{
    Blind, Call, CommitError, Entry, ForceRight, GrantError, Grants, JournalLine, JournalPage, Key,
    Ledger, LedgerError, Revision, Transaction,
};
use prost::Message;

use crate::work::bounded;

const CALL: Call<'static> =
    Call { user: "user", now: 1_800_000_000, witness: &Blind, force: ForceRight::Own };
const REVISION: Revision = Revision(1 << 40);

/// Checks a request: the first byte chooses the method, the second is the length of the stored record, the request
/// follows it.
pub fn run(data: &[u8]) {
    let [question, length, rest @ ..] = data else { return };
    let (record, request) = rest.split_at(usize::from(*length).min(rest.len()));
    bounded(data.len(), 4 << 10, || {
        ask(*question, record, request);
        // The stored record may also be read as the request.
        ask(*question, request, record);
    });
}

macro_rules! questions {
    ($question:expr, $record:expr, $request:expr; $($method:ident),*) => {{
        let questions: &[fn(&[u8], &[u8])] = &[$(|record, request| {
            let Ok(request) = Message::decode(request) else { return };
            let stored = Arc::new(Stored::new(record));
            let grants = Grants::new(stored.clone());
            let answer = grants.$method(&request, &CALL);
            let is_changed = stored.is_changed();
            match answer {
                Ok(answer) => {
                    let answer = answer.encode_to_vec();
                    // A request that changed nothing has the same answer again.
                    if !is_changed {
                        let again = grants.$method(&request, &CALL).unwrap();
                        assert_eq!(again.encode_to_vec(), answer);
                    }
                }
                Err(error) => check(&error, is_changed),
            }
            if is_changed {
                check_readable(&grants);
            }
        }),*];
        questions[usize::from($question) % questions.len()]($record, $request)
    }};
}

fn ask(question: u8, record: &[u8], request: &[u8]) {
    questions!(question, record, request;
        acquire_identity, record_identity_event, get_identity,
        attach_volume, detach_volume, break_attachment, may_start, get_volume,
        advance_fence, get_fence, check_token, list_ledger_records
    );
}

fn check(error: &GrantError, is_changed: bool) {
    assert!(!is_changed, "changed and refused: {error}");
    match error {
        GrantError::Request(error) => drop(crate::world::checked_message(error)),
        GrantError::TooManyHolders { .. }
        | GrantError::Full { .. }
        | GrantError::TooLarge { .. }
        | GrantError::RecordTooLarge { .. }
        | GrantError::NotOwner { .. } => {}
        GrantError::Ledger(LedgerError::Damaged { reason }) => assert!(!reason.is_empty()),
        GrantError::Ledger(LedgerError::Unavailable { .. })
        | GrantError::OtherTerm
        | GrantError::Contended { .. }
        | GrantError::Contradicted(_) => {
            panic!("{error}")
        }
    }
}

/// Checks that written journal lines and records can be read.
fn check_readable(grants: &Grants) {
    let request = v1::ListLedgerRecordsRequest::default();
    let page = grants.list_ledger_records(&request, &CALL).unwrap();
    assert_eq!(page.records.len(), 1);
    let subject = &page.records[0].subject;
    let mut names = subject.split('/').skip(1).map(str::to_owned);
    let mut name = || names.next().unwrap();
    if subject.starts_with("identity/") {
        let request = v1::GetIdentityRequest { namespace: name(), name: name() };
        grants.get_identity(&request, &CALL).unwrap();
    } else if subject.starts_with("volume/") {
        grants.get_volume(&v1::GetVolumeRequest { volume: name() }, &CALL).unwrap();
    } else {
        grants.get_fence(&v1::GetFenceRequest { node_name: name() }, &CALL).unwrap();
    }
}

/// A ledger in which every key has the same record, until one is written.
struct Stored {
    record: Vec<u8>,
    written: Mutex<Option<Transaction>>,
}

impl Stored {
    fn new(record: &[u8]) -> Stored {
        Stored { record: record.to_owned(), written: Mutex::new(None) }
    }

    fn is_changed(&self) -> bool {
        self.written.lock().unwrap().is_some()
    }
}

impl Ledger for Stored {
    fn read(&self, keys: &[Key]) -> Result<Vec<Option<Entry>>, LedgerError> {
        let written = self.written.lock().unwrap();
        let read = |key: &Key| {
            let mut writes = written.iter().flat_map(|transaction| &transaction.writes);
            match writes.find(|(written, _)| written == key) {
                Some((_, value)) => value.clone().map(|value| (value, REVISION.next())),
                None if self.record.is_empty() => None,
                None => Some((self.record.clone(), REVISION)),
            }
        };
        let entries = keys.iter().map(read);
        Ok(entries.map(|e| e.map(|(value, revision)| Entry { value, revision })).collect())
    }

    fn list(&self, _: &str) -> Result<Vec<(Key, Entry)>, LedgerError> {
        Ok(Vec::new())
    }

    fn commit(&self, transaction: Transaction) -> Result<Revision, CommitError> {
        let mut written = self.written.lock().unwrap();
        assert!(written.is_none(), "a question commits once");
        let expected = (!self.record.is_empty()).then_some(REVISION);
        for (key, expectation) in &transaction.expectations {
            assert_eq!(*expectation, expected, "{key:?} is expected as it was read");
        }
        assert!(transaction.journal.as_ref().is_some_and(|line| !line.is_empty()));
        *written = Some(transaction);
        Ok(REVISION.next())
    }

    fn journal(&self, after: Revision, _limit: usize) -> Result<JournalPage, LedgerError> {
        let written = self.written.lock().unwrap();
        let (last, text) = match &*written {
            Some(transaction) => (REVISION.next(), transaction.journal.clone().unwrap_or_default()),
            None => (REVISION, self.record.clone()),
        };
        let line = JournalLine { revision: last, previous: REVISION, text };
        let lines = if after < last { vec![line] } else { Vec::new() };
        Ok(JournalPage { lines, oldest: Some(last), last })
    }
}
