//! Cuts JSON text into items while it is read: a `List`, an `XxxList`, single objects, or several of them one after
//! another.
//!
//! Only the structure around items is parsed here; an item is found by counting brackets and parsed by [`super::item`],
//! while the following text is being cut. Only a few batches of items are in memory, however large the file: a list of
//! 100,000 pods takes no more memory than one of 1,000.

use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use berth_proto::fields::{Message, unknown_field};
use memchr::memchr2;

use super::dump::{Location, Refused};
use super::item::{Implied, Item, TakeItems};
use super::source::{NOT_UTF8, Position, Source};
use crate::escape::clipped;
use crate::feed::FeedError;

/// Number of bytes per read.
const CHUNK_BYTES: usize = 1 << 20;
/// Number of bytes of items that are parsed at once, on all cores.
const BATCH_BYTES: usize = 8 << 20;
/// Number of batches that are cut and wait for those before them.
const QUEUE: usize = 1;

/// Passes on every object of `source`, in order, with its location; returns the number of documents.
///
/// `head` is the part of the source that was read already.
pub(super) fn cut(
    source: Source<'_>,
    head: Vec<u8>,
    items: &mut (impl TakeItems + Send),
) -> Result<usize, FeedError> {
    let path = source.path.clone();
    let (cuts, taken) = sync_channel(QUEUE);
    let (done, spare) = sync_channel(QUEUE);
    let cutter = Cutter {
        source,
        buffer: head,
        at: 0,
        counted: 0,
        place: Position::START,
        pending: Vec::new(),
        n_documents: 0,
        cuts,
        spare,
    };
    thread::scope(|scope| {
        let taking = {
            let path = path.clone();
            let take = move || take_all(&path, &taken, &done, items);
            thread::Builder::new().spawn_scoped(scope, take)
        };
        let taking = taking.map_err(|source| FeedError::Read { path: path.to_string(), source })?;
        let n_documents = cutter.run();
        // Errors earlier in the file are reported first.
        taking.join().unwrap_or_else(|panic| resume_unwind(panic))?;
        n_documents
    })
}

/// A part that was cut out of the text.
enum Cut {
    /// Items, and the text that contains them.
    Items(Vec<u8>, Vec<Pending>),
    /// The type implied by the list of earlier items.
    Settle(Implied),
    /// A fault of a list.
    Fault(Refused),
}

/// Passes on everything that is cut.
fn take_all(
    path: &Arc<str>,
    cuts: &Receiver<Cut>,
    done: &SyncSender<Vec<u8>>,
    items: &mut impl TakeItems,
) -> Result<(), FeedError> {
    for cut in cuts {
        match cut {
            Cut::Items(bytes, pending) => {
                items.take(texts(path, &bytes, pending)?)?;
                // If nobody reuses the buffer, it is freed.
                drop(done.try_send(bytes));
            }
            Cut::Settle(implied) => items.settle(&implied)?,
            Cut::Fault(fault) => items.take_fault(fault),
        }
    }
    Ok(())
}

fn texts<'a>(
    path: &Arc<str>,
    bytes: &'a [u8],
    pending: Vec<Pending>,
) -> Result<Vec<Item<'a>>, FeedError> {
    let text = |pending| {
        let Pending { range, place, document, item, implied, says_its_kind_once } = pending;
        let bytes = &bytes[range];
        let json = str::from_utf8(bytes).map_err(|error| {
            let mut place: Position = place;
            place.advance(&bytes[..error.valid_up_to()]);
            place.error(path, NOT_UTF8)
        })?;
        let location = Location { path: path.clone(), line: place.line, document, item };
        let (json, column) = (json.into(), place.column);
        let (lines, fault) = (Vec::new(), None);
        Ok(Item { json, column, lines, implied, location, fault, says_its_kind_once })
    };
    pending.into_iter().map(text).collect()
}

/// The kind that the kind of a document implies for its items: `None` for an object that is not a list.
pub(super) fn list_kind(kind: &str) -> Option<Option<Arc<str>>> {
    let kind = kind.strip_suffix("List")?;
    Some((!kind.is_empty()).then(|| kind.into()))
}

/// The fault of a list that has the field `key`, if lists have no such field.
pub(super) fn list_fault(kind: &str, key: &str, location: Location) -> Option<Refused> {
    let list = Message::named("List")?;
    if list.field(key).is_some() {
        return None;
    }
    let reason = unknown_field(list, key);
    let object = clipped(kind).into_owned();
    Some(Refused { location, object, field: clipped(key).into_owned(), reason })
}

pub(super) const ITEMS_WITHOUT_KIND: &str =
    "holds `items` but no `kind`; the file is probably cut off";
pub(super) const OBJECT_EXPECTED: &str = "expected a Kubernetes object or list";
const ODD_ITEMS: &str = "`items` of a list must be an array";
const CUT_OFF: &str = "the text ends inside a value; the file is probably cut off";

struct Cutter<'s> {
    source: Source<'s>,
    buffer: Vec<u8>,
    /// Index of the next byte.
    at: usize,
    /// Index up to which lines are counted: `place` is its position.
    counted: usize,
    place: Position,
    pending: Vec<Pending>,
    n_documents: usize,
    cuts: SyncSender<Cut>,
    /// Buffers to reuse: new memory would have to be cleared first.
    spare: Receiver<Vec<u8>>,
}

/// An item in the buffer.
struct Pending {
    range: Range<usize>,
    place: Position,
    document: usize,
    item: Option<usize>,
    implied: Option<Implied>,
    says_its_kind_once: bool,
}

/// State of the document that is being read.
#[derive(Default)]
struct Frame {
    kind: Option<String>,
    api_version: Option<String>,
    seen: Vec<&'static str>,
    /// Whether items were passed on before the document's kind was known.
    has_early_items: bool,
    /// Position of an `items` that is not a list.
    odd_items: Option<Position>,
    /// The other keys, each with its line: a list has no such.
    others: Vec<(String, u64)>,
}

/// Number of keys of a document that are kept, in case it is a list.
const MAX_OTHERS: usize = 8;

impl Frame {
    fn note(&mut self, key: &'static str) -> bool {
        let is_new = !self.seen.contains(&key);
        self.seen.push(key);
        is_new
    }

    fn has_items(&self) -> bool {
        self.seen.contains(&"items")
    }

    /// Type implied for the items of this list, once its kind is known.
    fn implied(&self) -> Option<Implied> {
        let kind = list_kind(self.kind.as_deref()?)?;
        Some(Implied { kind, api_version: self.api_version.as_deref().map(Into::into) })
    }
}

/// State of the search for the end of a value, which may begin in one chunk and end in another.
#[derive(Default)]
struct Scan {
    at: usize,
    depth: usize,
    in_string: bool,
    /// Index at which the last string began, after its quote.
    string: usize,
    /// Number of strings in the outermost object that are `kind` and `apiVersion`, and whether any has an escape.
    n_kinds: usize,
    n_versions: usize,
    has_escapes: bool,
}

/// Indentation of kubectl, twice.
const INDENTATION: &[u8; 8] = b"        ";

impl Scan {
    /// Index after the end of the value, if that is within `bytes`.
    fn end_in(&mut self, bytes: &[u8]) -> Option<usize> {
        loop {
            if self.in_string {
                self.skip_string(bytes)?;
                if self.depth == 0 {
                    return Some(self.at);
                }
                continue;
            }
            // Half of kubectl's output is indentation.
            while self.depth > 0
                && bytes.get(self.at..).is_some_and(|rest| rest.starts_with(INDENTATION))
            {
                self.at += INDENTATION.len();
            }
            let &byte = bytes.get(self.at)?;
            self.at += 1;
            match byte {
                b'"' => (self.in_string, self.string) = (true, self.at),
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' if self.depth > 1 => self.depth -= 1,
                b'}' | b']' if self.depth == 1 => return Some(self.at),
                b'}' | b']' => return Some(self.at - 1),
                b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' if self.depth == 0 => {
                    return Some(self.at - 1);
                }
                _ => {}
            }
        }
    }

    /// Skips the rest of the string, if it ends within `bytes`.
    fn skip_string(&mut self, bytes: &[u8]) -> Option<()> {
        loop {
            let rest = bytes.get(self.at..)?;
            let Some(found) = memchr2(b'"', b'\\', rest) else {
                self.at = bytes.len();
                return None;
            };
            self.at += found + 1;
            if rest[found] == b'"' {
                break;
            }
            // An escaped character ends nothing; it may be the first byte of the next chunk.
            self.at += 1;
            self.has_escapes |= self.depth == 1;
        }
        self.in_string = false;
        if self.depth == 1 {
            match &bytes[self.string..self.at - 1] {
                b"kind" => self.n_kinds += 1,
                b"apiVersion" => self.n_versions += 1,
                _ => {}
            }
        }
        Some(())
    }

    fn says_its_kind_once(&self) -> bool {
        self.n_kinds == 1 && self.n_versions == 1 && !self.has_escapes
    }
}

impl Cutter<'_> {
    /// Cuts the whole text; returns the number of documents.
    fn run(mut self) -> Result<usize, FeedError> {
        while self.next_byte()?.is_some() {
            self.document()?;
            self.n_documents += 1;
            if self.pending_bytes() >= BATCH_BYTES {
                self.flush()?;
            }
        }
        self.flush()?;
        Ok(self.n_documents)
    }

    fn document(&mut self) -> Result<(), FeedError> {
        let (start, place) = (self.at, self.place());
        if self.buffer[start] != b'{' {
            return Err(place.error(&self.source.path, OBJECT_EXPECTED));
        }
        self.at += 1;
        let mut frame = Frame::default();
        let mut is_first = true;
        loop {
            match self.expect_byte()? {
                b'}' => break self.at += 1,
                b',' if !is_first => self.at += 1,
                _ if is_first => {}
                _ => return Err(self.error("expected `,` or `}`")),
            }
            is_first = false;
            self.member(&mut frame)?;
        }
        self.end_document(&frame, start, place)
    }

    /// Reads one key and its value.
    fn member(&mut self, frame: &mut Frame) -> Result<(), FeedError> {
        if self.expect_byte()? != b'"' {
            return Err(self.error("expected a key in quotes"));
        }
        let place = self.place();
        let key = self.value()?;
        let key: String = self.read(key, place, "malformed key")?;
        if self.expect_byte()? != b':' {
            return Err(self.error("expected `:`"));
        }
        self.at += 1;
        let first = self.expect_byte()?;
        let known = ["kind", "apiVersion", "items"].into_iter().find(|known| *known == key);
        if let Some(known) = known
            && !frame.note(known)
        {
            return Err(place.error(&self.source.path, format!("`{known}` is given twice")));
        }
        let value_place = self.place();
        // In an object that is known not to be a list, `items` is an ordinary field.
        let is_object = frame.kind.as_deref().is_some_and(|kind| list_kind(kind).is_none());
        match known {
            Some("items") if first == b'[' && !is_object => return self.list(frame),
            Some("items") => {
                let value = self.value()?;
                // W-JS-4: null means absent.
                if self.buffer[value] != *b"null" {
                    frame.odd_items = Some(value_place);
                }
            }
            Some("kind") => {
                let value = self.value()?;
                frame.kind = self.read(value, value_place, "`kind` must be a string")?;
            }
            Some(_) => {
                let value = self.value()?;
                frame.api_version =
                    self.read(value, value_place, "`apiVersion` must be a string")?;
            }
            None => {
                self.value()?;
                if !is_object && frame.others.len() < MAX_OTHERS {
                    frame.others.push((key, place.line));
                }
            }
        }
        Ok(())
    }

    /// Reads the elements of `items`, and passes them on as they come.
    fn list(&mut self, frame: &mut Frame) -> Result<(), FeedError> {
        let implied = frame.implied();
        frame.has_early_items |= implied.is_none();
        self.at += 1;
        for index in 0.. {
            match self.expect_byte()? {
                b']' => break,
                b',' if index > 0 => self.at += 1,
                _ if index == 0 => {}
                _ => return Err(self.error("expected `,` or `]`")),
            }
            self.expect_byte()?;
            let place = self.place();
            let (range, says_its_kind_once) = self.item()?;
            let (item, implied) = (Some(index), implied.clone());
            self.pend(range, place, item, implied, says_its_kind_once);
            if self.pending_bytes() >= BATCH_BYTES {
                self.flush()?;
            }
        }
        self.at += 1;
        Ok(())
    }

    fn end_document(
        &mut self,
        frame: &Frame,
        start: usize,
        place: Position,
    ) -> Result<(), FeedError> {
        let implied = frame.implied();
        if let (Some(kind), Some(_)) = (&frame.kind, &implied) {
            self.fault(kind, &frame.others)?;
        }
        let error = |place: Position, reason: String| Err(place.error(&self.source.path, reason));
        match (&frame.kind, &implied) {
            (None, _) if frame.has_items() => error(place, ITEMS_WITHOUT_KIND.to_owned()),
            (Some(kind), None) if frame.has_early_items => {
                error(place, format!("`items` stands in a `{kind}`, which is no list"))
            }
            (_, None) => {
                self.pend(start..self.at, place, None, Some(Implied::default()), false);
                Ok(())
            }
            (_, Some(_)) if frame.odd_items.is_some() => {
                error(frame.odd_items.unwrap_or(place), ODD_ITEMS.to_owned())
            }
            (_, Some(implied)) if frame.has_early_items => {
                self.flush()?;
                self.hand_on(Cut::Settle(implied.clone()))
            }
            (_, Some(_)) => Ok(()),
        }
    }

    /// Passes on the faults of a list with other fields than lists have.
    fn fault(&mut self, kind: &str, others: &[(String, u64)]) -> Result<(), FeedError> {
        for (key, line) in others {
            let (path, document) = (self.source.path.clone(), self.n_documents);
            let location = Location { path, line: *line, document, item: None };
            if let Some(fault) = list_fault(kind, key, location) {
                self.hand_on(Cut::Fault(fault))?;
            }
        }
        Ok(())
    }

    /// Skips the value that starts here; returns its range.
    fn value(&mut self) -> Result<Range<usize>, FeedError> {
        Ok(self.item()?.0)
    }

    /// Skips the value that starts here; returns its range, and whether it is an object with a single kind.
    fn item(&mut self) -> Result<(Range<usize>, bool), FeedError> {
        let start = self.at;
        let mut scan = Scan { at: start, ..Scan::default() };
        let end = loop {
            if let Some(end) = scan.end_in(&self.buffer) {
                break end;
            }
            if !self.fill()? {
                if scan.depth > 0 || scan.in_string {
                    return Err(self.cut_off());
                }
                break self.buffer.len();
            }
        };
        if end == start {
            return Err(self.error("expected a value"));
        }
        self.at = end;
        Ok((start..end, scan.says_its_kind_once()))
    }

    fn read<V: serde::de::DeserializeOwned>(
        &self,
        value: Range<usize>,
        place: Position,
        otherwise: &str,
    ) -> Result<V, FeedError> {
        serde_json::from_slice(&self.buffer[value])
            .map_err(|_| place.error(&self.source.path, otherwise))
    }

    fn pend(
        &mut self,
        range: Range<usize>,
        place: Position,
        item: Option<usize>,
        implied: Option<Implied>,
        says_its_kind_once: bool,
    ) {
        let document = self.n_documents;
        self.pending.push(Pending { range, place, document, item, implied, says_its_kind_once });
    }

    fn pending_bytes(&self) -> usize {
        self.pending.first().map_or(0, |first| self.at - first.range.start)
    }

    /// Passes on the pending items, and drops everything that was read.
    fn flush(&mut self) -> Result<(), FeedError> {
        self.place();
        if self.pending.is_empty() {
            self.buffer.drain(..self.at);
            (self.at, self.counted) = (0, 0);
            return Ok(());
        }
        let mut next = self.spare.try_recv().unwrap_or_default();
        next.clear();
        next.extend_from_slice(&self.buffer[self.at..]);
        self.buffer.truncate(self.at);
        (self.at, self.counted) = (0, 0);
        let bytes = std::mem::replace(&mut self.buffer, next);
        let pending = std::mem::take(&mut self.pending);
        self.hand_on(Cut::Items(bytes, pending))
    }

    fn hand_on(&mut self, cut: Cut) -> Result<(), FeedError> {
        match self.cuts.send(cut) {
            Ok(()) => Ok(()),
            // The receiver has ended with an error of its own, which is the one reported.
            Err(_) => Err(self.cut_off()),
        }
    }

    /// Returns the next byte that is not white space, without consuming it.
    fn next_byte(&mut self) -> Result<Option<u8>, FeedError> {
        loop {
            while let Some(&byte) = self.buffer.get(self.at) {
                if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                    return Ok(Some(byte));
                }
                self.at += 1;
            }
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    fn expect_byte(&mut self) -> Result<u8, FeedError> {
        match self.next_byte()? {
            Some(byte) => Ok(byte),
            None => Err(self.cut_off()),
        }
    }

    /// Reads more bytes; returns false at the end.
    fn fill(&mut self) -> Result<bool, FeedError> {
        Ok(self.source.read_some(&mut self.buffer, CHUNK_BYTES)? > 0)
    }

    /// Position of the next byte.
    fn place(&mut self) -> Position {
        self.place.advance(&self.buffer[self.counted..self.at]);
        self.counted = self.at;
        self.place
    }

    fn error(&mut self, reason: &str) -> FeedError {
        self.place().error(&self.source.path, reason)
    }

    fn cut_off(&mut self) -> FeedError {
        self.at = self.buffer.len();
        self.error(CUT_OFF)
    }
}
