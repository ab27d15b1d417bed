//! Tokens: a source file as token trees, without attributes and without items under `#[cfg(test)]`.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Returns the tokens of a source text.
///
/// # Panics
/// If the text is not Rust.
pub(crate) fn read(path: &str, text: &str) -> Vec<TokenTree> {
    let stream: TokenStream = text.parse().unwrap_or_else(|error| panic!("{path}: {error}"));
    without_tests(stream)
}

/// Returns the tokens inside a group, prepared in the same way.
pub(crate) fn inside(tree: &TokenTree) -> Option<Vec<TokenTree>> {
    match tree {
        TokenTree::Group(group) => Some(without_tests(group.stream())),
        _ => None,
    }
}

/// Returns the tokens without attributes and without items after `#[cfg(test)]`.
fn without_tests(stream: TokenStream) -> Vec<TokenTree> {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    let mut kept = Vec::with_capacity(trees.len());
    let mut at = 0;
    while at < trees.len() {
        let (after, is_test) = after_attributes(&trees, at);
        at = if is_test { after_item(&trees, after) } else { after };
        if after == at && at < trees.len() {
            kept.push(trees[at].clone());
            at += 1;
        }
    }
    kept
}

/// Returns the position after the attributes that begin here, and whether `#[cfg(test)]` is one of them.
fn after_attributes(trees: &[TokenTree], mut at: usize) -> (usize, bool) {
    let mut is_test = false;
    while is_punct(trees.get(at), '#') {
        let group = at + 1 + usize::from(is_punct(trees.get(at + 1), '!'));
        let Some(TokenTree::Group(attribute)) = trees.get(group) else { break };
        if attribute.delimiter() != Delimiter::Bracket {
            break;
        }
        is_test |= attribute.stream().to_string().replace(' ', "") == "cfg(test)";
        at = group + 1;
    }
    (at, is_test)
}

/// Returns the position after an item, a statement or a field: it ends with `;`, with `,` or with its braces. Braces
/// end neither a `use` nor an item with a value.
fn after_item(trees: &[TokenTree], mut at: usize) -> usize {
    let mut braces_end = true;
    while let Some(tree) = trees.get(at) {
        at += 1;
        match tree {
            TokenTree::Ident(word) if word == "use" || word == "static" || word == "let" => {
                braces_end = false;
            }
            TokenTree::Punct(punct) if punct.as_char() == '=' => braces_end = false,
            TokenTree::Punct(punct) if matches!(punct.as_char(), ';' | ',') => break,
            TokenTree::Group(group) if braces_end && group.delimiter() == Delimiter::Brace => break,
            _ => {}
        }
    }
    at
}

pub(crate) fn is_punct(tree: Option<&TokenTree>, wanted: char) -> bool {
    matches!(tree, Some(TokenTree::Punct(punct)) if punct.as_char() == wanted)
}

/// Whether there is a `::` at this position.
pub(crate) fn is_path_separator(trees: &[TokenTree], at: usize) -> bool {
    is_punct(trees.get(at), ':') && is_punct(trees.get(at + 1), ':')
}

/// Returns the identifier of a token, without `r#`.
pub(crate) fn word(tree: Option<&TokenTree>) -> Option<String> {
    match tree {
        Some(TokenTree::Ident(ident)) => {
            let text = ident.to_string();
            Some(text.strip_prefix("r#").map_or(text.clone(), str::to_owned))
        }
        _ => None,
    }
}

pub(crate) fn line(tree: &TokenTree) -> usize {
    tree.span().start().line
}
