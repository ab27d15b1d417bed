//! Lists: pages, continue tokens, and the version of the response (recordings 01, 02, 06).

use std::ops::Bound;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::resource::Resource;
use crate::selector::Selector;
use crate::status::Refusal;
use crate::store::collection::Objects;
use crate::store::{State, Store};
use crate::stored::Stored;
use crate::target::{Query, Target};

/// A page of objects, which is rendered after the store's lock is released.
#[derive(Debug)]
pub(crate) struct Page {
    /// Version of the list, from which a watch can start.
    pub(crate) version: u64,
    pub(crate) items: Vec<Arc<Stored>>,
    /// Continue token; absent on the last page.
    pub(crate) token: Option<String>,
    /// Number of objects after this page; unknown with a selector.
    pub(crate) n_remaining: Option<usize>,
}

/// Contents of a continue token, which is opaque to clients.
#[derive(Debug, Serialize, Deserialize)]
struct Token {
    /// Version of all pages; 0 for the rest of the list at the current version.
    version: u64,
    /// Key of the last object of the previous page.
    after: String,
}

/// Version of the response that `resourceVersion` and `resourceVersionMatch` require.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wanted {
    Latest,
    Cached,
    NotOlderThan(u64),
    Exact(u64),
}

/// The page of objects for `query`.
pub(crate) fn list(store: &Store, target: &Target, query: &Query) -> Result<Page, Refusal> {
    let resource = target.resource;
    let selector =
        Selector::parse(resource, query.get("labelSelector"), query.get("fieldSelector"))?;
    let wanted = Wanted::parse(query)?;
    let limit = match query.get("limit") {
        "" => 0,
        text => text.parse().map_err(|_| {
            Refusal::bad_request(format!("strconv.ParseInt: parsing \"{text}\": invalid syntax"))
        })?,
    };
    // A list from the cache has no pages (recording 02: `resourceVersion=0` with `limit=1` returned two objects).
    let limit = if wanted == Wanted::Cached || limit == 0 { usize::MAX } else { limit };
    let mut state = store.lock();
    let token = match query.get("continue") {
        "" => None,
        text => Some(Token::parse(text)?),
    };
    let version = state.version_of(wanted, token.as_ref())?;
    if state.collection(resource).is_unchanged_since(version) {
        let objects = state.collection(resource).objects();
        return Ok(page(objects, target, &selector, token.as_ref(), version, limit));
    }
    let Some(objects) = state.collection_mut(resource).at(version) else {
        return Err(expired(token));
    };
    drop(state);
    Ok(page(&objects, target, &selector, token.as_ref(), version, limit))
}

/// All objects that `target` and `selector` select now, the initial objects of a watch.
pub(crate) fn all(state: &State, target: &Target, selector: &Selector) -> Vec<Arc<Stored>> {
    let objects = state.collection(target.resource).objects();
    page(objects, target, selector, None, state.version, usize::MAX).items
}

fn page(
    objects: &Objects,
    target: &Target,
    selector: &Selector,
    token: Option<&Token>,
    version: u64,
    limit: usize,
) -> Page {
    let prefix = prefix(target);
    let start = match token {
        Some(token) => Bound::Excluded(token.after.as_str()),
        None => Bound::Included(prefix.as_str()),
    };
    let wanted_key = target.name.as_ref().map(|name| format!("{prefix}{name}"));
    let mut items = Vec::new();
    let mut last: Option<&Arc<str>> = None;
    let mut n_remaining = 0;
    let mut has_more = false;
    for (key, object) in objects.range::<str, _>((start, Bound::Unbounded)) {
        if !key.starts_with(&prefix) {
            break;
        }
        if wanted_key.as_ref().is_some_and(|wanted| **wanted != **key)
            || !selector.selects(key, object)
        {
            continue;
        }
        if items.len() < limit {
            items.push(object.clone());
            last = Some(key);
        } else {
            has_more = true;
            n_remaining += 1;
            if !selector.is_empty() {
                break;
            }
        }
    }
    let token =
        last.filter(|_| has_more).map(|last| Token { version, after: last.to_string() }.to_text());
    let n_remaining = (has_more && selector.is_empty()).then_some(n_remaining);
    Page { version, items, token, n_remaining }
}

/// Common prefix of the keys of `target`.
fn prefix(target: &Target) -> String {
    if target.namespace.is_empty() { String::new() } else { format!("{}/", target.namespace) }
}

fn expired(token: Option<Token>) -> Refusal {
    let Some(token) = token else {
        return Refusal::expired("The resourceVersion for the provided list is too old.");
    };
    let message = "The provided continue parameter is too old to display a consistent list result. Begin anew, or go on \
        with the token in metadata.continue for the rest of the list as it is now";
    let fresh = Token { version: 0, after: token.after };
    Refusal { continue_token: Some(fresh.to_text()), ..Refusal::expired(message) }
}

impl State {
    fn version_of(&self, wanted: Wanted, token: Option<&Token>) -> Result<u64, Refusal> {
        let version = match (token, wanted) {
            (Some(Token { version: 0, .. }), _) => self.version,
            (Some(token), _) => token.version,
            (None, Wanted::Exact(version)) => version,
            (None, Wanted::NotOlderThan(version)) => version.max(self.version),
            (None, Wanted::Latest | Wanted::Cached) => self.version,
        };
        if version > self.version {
            return Err(Refusal::future_version(version, self.version));
        }
        Ok(version)
    }
}

impl Wanted {
    fn parse(query: &Query) -> Result<Wanted, Refusal> {
        const FIELD: &str = "resourceVersionMatch";
        let (version, rule) = (query.get("resourceVersion"), query.get(FIELD));
        if !query.get("sendInitialEvents").is_empty() {
            let why = "sendInitialEvents is forbidden for list";
            return Err(Refusal::list_options("sendInitialEvents", why));
        }
        if version.is_empty() && !rule.is_empty() {
            let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            return Err(Refusal::list_options(FIELD, why));
        }
        let number = parse_version(version)?;
        if !query.get("continue").is_empty() {
            return match version {
                "" | "0" => Ok(Wanted::Latest),
                _ => Err(Refusal::bad_request(
                    "specifying resource version is not allowed when using continue",
                )),
            };
        }
        match (rule, number) {
            ("Exact", 0) => {
                let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                Err(Refusal::list_options(FIELD, why))
            }
            ("Exact", version) => Ok(Wanted::Exact(version)),
            ("" | "NotOlderThan", 0) if version.is_empty() => Ok(Wanted::Latest),
            ("" | "NotOlderThan", 0) => Ok(Wanted::Cached),
            // With a limit and no rule, older clients expect exactly this version; the recorded server treats both as
            // "not older than".
            ("" | "NotOlderThan", version) => Ok(Wanted::NotOlderThan(version)),
            (other, _) => Err(Refusal::list_options(
                FIELD,
                &format!("supported values: Exact, NotOlderThan, not {other}"),
            )),
        }
    }
}

/// Parses the resourceVersion of a query; an empty one is 0.
pub(crate) fn parse_version(text: &str) -> Result<u64, Refusal> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_| {
        let why = format!("strconv.ParseUint: parsing \"{text}\": invalid syntax");
        let value = format!("resourceVersion: Invalid value: \"{text}\": {why}");
        Refusal::bad_request(format!("invalid resource version: {value}"))
    })
}

impl Token {
    fn to_text(&self) -> String {
        // JSON in hexadecimal digits: opaque to clients, and without characters that a URL escapes.
        let json = serde_json::to_string(self).unwrap_or_default();
        json.bytes().map(|byte| format!("{byte:02x}")).collect()
    }

    fn parse(text: &str) -> Result<Token, Refusal> {
        let digits = |at: usize| text.get(at..at + 2);
        let bytes: Option<Vec<u8>> = (0..text.len())
            .step_by(2)
            .map(|at| digits(at).and_then(|two| u8::from_str_radix(two, 16).ok()))
            .collect();
        bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).ok_or_else(|| {
            Refusal::bad_request("invalid continue token: continue key is not valid")
        })
    }
}

impl Page {
    /// Text of the list up to its first item.
    pub(crate) fn opening(&self, resource: &Resource) -> String {
        let metadata = self.metadata();
        let (kind, api_version) = (resource.kind, resource.api_version());
        format!(
            r#"{{"kind":"{kind}List","apiVersion":"{api_version}","metadata":{metadata},"items":["#
        )
    }

    /// The metadata of the list.
    pub(crate) fn metadata(&self) -> serde_json::Value {
        let mut metadata = serde_json::json!({"resourceVersion": self.version.to_string()});
        if let Some(token) = &self.token {
            metadata["continue"] = token.as_str().into();
        }
        if let Some(n_remaining) = self.n_remaining {
            metadata["remainingItemCount"] = n_remaining.into();
        }
        metadata
    }
}
