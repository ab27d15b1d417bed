//! Undecodable: the decoder's error in terms of the request, with the field path from the outside in.

use super::error::CallError;

/// The beginning of each error text of prost's decoder.
const BEGINNING: &str = "failed to decode Protobuf message: ";

/// The error of a message, or of a part of it that is called `outer`. `None` for a text that is not the decoder's.
///
/// The decoder names `Message.field` from the inside out, each followed by `: `, and then its reason.
pub(crate) fn of_decoder(text: &str, outer: Option<&str>) -> Option<CallError> {
    let mut rest = text.strip_prefix(BEGINNING)?;
    let mut path = Vec::new();
    while let Some((head, tail)) = rest.split_once(": ") {
        let Some((message, field)) = head.split_once('.') else { break };
        let is_name = |name: &str| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        if !is_name(message) || !is_name(field) {
            break;
        }
        path.push(field);
        rest = tail;
    }
    path.extend(outer);
    path.reverse();
    let reason = rest.strip_prefix("invalid string value: ").unwrap_or(rest);
    let reason = match reason {
        "data is not UTF-8 encoded" => "the text is not UTF-8",
        other => other,
    };
    let reason = match path.is_empty() {
        true => reason.to_owned(),
        false => format!("`{}`: {reason}", path.join(".")),
    };
    Some(CallError::Undecodable { reason })
}
