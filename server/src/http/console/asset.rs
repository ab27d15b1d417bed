//! Assets: the files of the page. A browser keeps them, and asks each time whether they are still the same.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::body::{Body, Bytes};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
    REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use axum::response::Response;
use flate2::Compression;
use rust_embed::Embed;

use super::compress::{gzip, takes_gzip};
use crate::http::health;

/// The page, whatever view is looked at: browsers do not send what follows `#`.
const INDEX: &str = "index.html";

/// Nothing is loaded from elsewhere, nothing in the page's text is run, and no other page may show this one.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Headers of every asset.
const HEADERS: [(HeaderName, &str); 7] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (CACHE_CONTROL, "no-cache"),
    (VARY, "accept-encoding"),
];

/// The files of the folder `console`.
#[derive(Embed)]
#[folder = "console"]
struct Files;

/// A file of the page.
struct Asset {
    plain: Bytes,
    /// The same in gzip; `None` if it cannot be compressed.
    compressed: Option<Bytes>,
    content_type: &'static str,
    /// Differs for files that differ.
    tag: String,
}

/// All files by their names below `/console/`.
static ASSETS: LazyLock<BTreeMap<Cow<'static, str>, Asset>> = LazyLock::new(|| {
    let named = Files::iter().filter_map(|name| Files::get(&name).map(|file| (name, file)));
    named
        .map(|(name, file)| {
            let hash: String =
                file.metadata.sha256_hash().iter().map(|it| format!("{it:02x}")).collect();
            let compressed = gzip(&file.data, Compression::default()).ok().map(Bytes::from);
            let content_type = content_type(&name);
            let plain = Bytes::from(file.data.into_owned());
            (name, Asset { plain, compressed, content_type, tag: format!("\"{hash}\"") })
        })
        .collect()
});

/// Whether a path is that of the page or of one of its files.
pub(crate) fn is_asset(path: &str) -> bool {
    find(path).is_some()
}

fn find(path: &str) -> Option<&'static Asset> {
    let name = if path == "/" { INDEX } else { path.strip_prefix("/console/")? };
    ASSETS.get(name)
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.') {
        Some((_, "html")) => "text/html; charset=utf-8",
        Some((_, "js")) => "text/javascript; charset=utf-8",
        Some((_, "css")) => "text/css; charset=utf-8",
        Some((_, "svg")) => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

/// Answers with a file.
pub(super) async fn get(uri: Uri, headers: HeaderMap) -> Response {
    let Some(asset) = find(uri.path()) else {
        let (status, text) = health::not_found().await;
        return with(status, Body::from(text), [(CONTENT_TYPE, "text/plain; charset=utf-8")]);
    };
    let known = headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let is_known = known.is_some_and(|known| known.split(',').any(|it| it.trim() == asset.tag));
    let mut response = match &asset.compressed {
        _ if is_known => with(StatusCode::NOT_MODIFIED, Body::empty(), []),
        Some(compressed) if takes_gzip(&headers) => {
            let encoding = [(CONTENT_ENCODING, "gzip"), (CONTENT_TYPE, asset.content_type)];
            with(StatusCode::OK, Body::from(compressed.clone()), encoding)
        }
        _ => {
            let plain = Body::from(asset.plain.clone());
            with(StatusCode::OK, plain, [(CONTENT_TYPE, asset.content_type)])
        }
    };
    if let Ok(tag) = HeaderValue::from_str(&asset.tag) {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}

fn with<const N: usize>(
    status: StatusCode,
    body: Body,
    headers: [(HeaderName, &'static str); N],
) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let all = HEADERS.into_iter().chain(headers);
    let all = all.map(|(name, value)| (name, HeaderValue::from_static(value)));
    response.headers_mut().extend(all);
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::header::ACCEPT_ENCODING;

    async fn got(path: &'static str, headers: &[(HeaderName, &str)]) -> Response {
        let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap()));
        get(Uri::from_static(path), headers.collect()).await
    }

    #[test]
    fn every_file_has_a_type_that_browsers_run() {
        assert!(ASSETS.len() > 20, "{}", ASSETS.len());
        for (name, asset) in ASSETS.iter() {
            assert_ne!(asset.content_type, "application/octet-stream", "{name}");
            assert!(asset.compressed.is_some(), "{name}");
        }
        let size = |of: fn(&Asset) -> usize| ASSETS.values().map(of).sum::<usize>();
        let compressed = size(|it| it.compressed.as_ref().map_or(0, Bytes::len));
        assert!(compressed < 200_000, "{compressed} bytes of {}", size(|it| it.plain.len()));
    }

    #[test]
    fn only_files_of_the_page_are_assets() {
        for path in ["/", "/console/style.css", "/console/js/app.js", "/console/index.html"] {
            assert!(is_asset(path), "{path}");
        }
        for path in
            ["", "/console", "/console/", "/console/nodes", "/console/../Cargo.toml", "/style.css"]
        {
            assert!(!is_asset(path), "{path}");
        }
    }

    /// What a file of the page imports or names is there.
    #[test]
    fn every_link_of_a_file_leads_to_one() {
        for (name, asset) in ASSETS.iter() {
            let text = std::str::from_utf8(&asset.plain).unwrap();
            let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
            let imported = text.split(" from \"").skip(1).chain(text.split("import(\"").skip(1));
            let relative = imported.filter_map(|rest| rest.split('"').next());
            for target in relative.filter(|target| target.starts_with('.')) {
                let mut parts: Vec<&str> = folder.split('/').filter(|it| !it.is_empty()).collect();
                for part in target.split('/') {
                    match part {
                        "." => {}
                        ".." => drop(parts.pop()),
                        part => parts.push(part),
                    }
                }
                let path = parts.join("/");
                assert!(ASSETS.contains_key(&*path), "{name} imports {target}, which is {path}");
            }
            for target in
                text.split("\"/console/").skip(1).filter_map(|rest| rest.split('"').next())
            {
                let is_data = matches!(target, "nodes" | "events");
                assert!(is_data || ASSETS.contains_key(target), "{name} names /console/{target}");
            }
        }
    }

    #[tokio::test]
    async fn a_file_is_sent_once_and_then_known() {
        let first = got("/", &[]).await;
        assert_eq!(first.status(), StatusCode::OK);
        assert_eq!(first.headers()[CONTENT_TYPE], "text/html; charset=utf-8");
        assert_eq!(first.headers()[CONTENT_SECURITY_POLICY], POLICY);
        assert!(!first.headers().contains_key(CONTENT_ENCODING));
        let tag = first.headers()[ETAG].to_str().unwrap();
        let again = got("/", &[(IF_NONE_MATCH, tag)]).await;
        assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
        let other = got("/", &[(IF_NONE_MATCH, "\"other\"")]).await;
        assert_eq!(other.status(), StatusCode::OK);
        let compressed = got("/console/style.css", &[(ACCEPT_ENCODING, "gzip")]).await;
        assert_eq!(compressed.headers()[CONTENT_ENCODING], "gzip");
        assert_eq!(got("/console/nothing.js", &[]).await.status(), StatusCode::NOT_FOUND);
    }
}
