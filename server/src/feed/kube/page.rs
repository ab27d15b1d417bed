//! Page: a list in pieces, for servers that do not stream lists (recording 01).

use berth_proto::meta_v1;
use serde_json::value::RawValue;

use crate::escape::clipped;

/// Number of items of a page, unless pages of that size fail.
pub(super) const ITEMS: u32 = 500;
/// Maximum number of items of a page.
pub(super) const MAX_ITEMS: u32 = 32_000;
/// Maximum size of a page, in bytes.
pub(super) const MAX_BYTES: usize = 64 << 20;

/// A page as it was sent, cut into its items. Items have neither kind nor version.
#[derive(Debug, serde::Deserialize)]
pub struct Page<'a> {
    metadata: meta_v1::ListMeta,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

/// Reason why a page is invalid.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadPage {
    /// The body is not the JSON of a list.
    #[error("the list is not the JSON of a list: {0}")]
    NotAList(String),
    /// The list has no version from which a watch could continue.
    #[error("the list has no resource version")]
    Unversioned,
}

impl<'a> Page<'a> {
    /// Cuts a page into its items, which are not parsed.
    ///
    /// # Errors
    /// [`BadPage::NotAList`].
    pub fn parse(body: &'a [u8]) -> Result<Page<'a>, BadPage> {
        let not_a_list = |error: &dyn std::error::Error| {
            BadPage::NotAList(clipped(&error.to_string()).into_owned())
        };
        let text = std::str::from_utf8(body).map_err(|error| not_a_list(&error))?;
        // serde would accept an array of a page's fields as well.
        if text.trim_start().starts_with('[') {
            return Err(BadPage::NotAList("it is an array, not an object".to_owned()));
        }
        serde_json::from_str(text).map_err(|error| not_a_list(&error))
    }

    /// The version of the whole list: all pages have that of the first.
    ///
    /// # Errors
    /// [`BadPage::Unversioned`] if it is no number.
    pub fn version(&self) -> Result<u64, BadPage> {
        self.metadata.resource_version.parse().map_err(|_| BadPage::Unversioned)
    }

    /// Token of the next page; empty on the last.
    pub fn token(&self) -> &str {
        &self.metadata.r#continue
    }

    /// The JSON text of each item, in their order.
    pub fn items(&self) -> impl Iterator<Item = &'a str> {
        self.items.iter().flatten().map(|item| item.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_cut_out_unread() {
        let page = Page::parse(
            br#"{"kind":"PodList","metadata":{"resourceVersion":"256","continue":"abc","remainingItemCount":2},"items":[{"a":[1]}, 7]}"#,
        )
        .unwrap();
        assert_eq!((page.version(), page.token()), (Ok(256), "abc"));
        assert_eq!(page.items().collect::<Vec<_>>(), [r#"{"a":[1]}"#, "7"]);
        let empty = Page::parse(br#"{"metadata":{"resourceVersion":"1"},"items":null}"#).unwrap();
        assert_eq!((empty.items().count(), empty.token()), (0, ""));
        assert_eq!(
            Page::parse(br#"{"metadata":{}}"#).unwrap().version(),
            Err(BadPage::Unversioned)
        );
        for body in [
            &b"<html>"[..],
            b"{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[",
            b"\xff",
            b" [{\"resourceVersion\":\"1\"},[]]",
        ] {
            assert!(matches!(Page::parse(body), Err(BadPage::NotAList(_))));
        }
    }
}
