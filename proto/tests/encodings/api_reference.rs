//! The pages of `docs/api`, made from the `.proto` files: a page for each service, and one for the messages that
//! several services use. The table of RPCs in `docs/security.md` is made from the same files.
//!
//! `BERTH_UPDATE=1 cargo test -p berth-proto --test encodings api_reference` writes them; without it the test fails
//! where a page differs from the protos.

mod access;
mod comment;
mod layout;
mod page;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{env, fs};

use layout::Layout;
use prost_reflect::DescriptorPool;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/api")
}

/// Every page by its file name.
fn pages() -> BTreeMap<String, String> {
    let pool = DescriptorPool::decode(berth_proto::FILE_DESCRIPTOR_SET).expect("descriptors");
    page::all(&Layout::of(&pool))
}

#[test]
fn the_pages_are_those_of_the_protos() {
    let (folder, pages) = (folder(), pages());
    if env::var_os("BERTH_UPDATE").is_some() {
        fs::create_dir_all(&folder).expect("the folder can be made");
        for (name, text) in &pages {
            fs::write(folder.join(name), text).expect("the page can be written");
        }
    }
    let stale: Vec<&String> = pages
        .iter()
        .filter(|(name, text)| fs::read_to_string(folder.join(name)).ok().as_ref() != Some(*text))
        .map(|(name, _)| name)
        .collect();
    assert!(stale.is_empty(), "not what the protos say: {stale:?}; {HOW}");
    let there: BTreeSet<String> = fs::read_dir(&folder)
        .expect("the folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    let left_over: Vec<&String> = there.iter().filter(|name| !pages.contains_key(*name)).collect();
    assert!(left_over.is_empty(), "pages of no service: {left_over:?}; remove them");
}

#[test]
fn the_security_page_has_the_access_of_every_method() {
    let path = folder().join("../security.md");
    let page = fs::read_to_string(&path).expect("the page");
    let updated = access::updated(&page);
    if env::var_os("BERTH_UPDATE").is_some() {
        fs::write(&path, &updated).expect("the page can be written");
    } else {
        assert!(page == updated, "the table in docs/security.md is not what the protos say; {HOW}");
    }
}

const HOW: &str =
    "BERTH_UPDATE=1 cargo test -p berth-proto --test encodings api_reference writes the pages";

#[test]
fn every_link_leads_somewhere() {
    let pages = pages();
    let headings: BTreeMap<&String, BTreeSet<String>> =
        pages.iter().map(|(name, text)| (name, anchors(name, text))).collect();
    for (name, text) in &pages {
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() { name.clone() } else { file.to_owned() };
            match headings.get(&file) {
                Some(known) => assert!(
                    anchor.is_empty() || known.contains(anchor),
                    "{name}: nothing is called `{target}`"
                ),
                None => assert!(folder().join(&file).exists(), "{name}: no file `{file}`"),
            }
        }
    }
}

/// Anchors of a page's headings; each is unique, because a link leads to the first.
fn anchors(name: &str, text: &str) -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    for heading in text.lines().filter(|line| line.starts_with('#')) {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let anchor: String = words
            .chars()
            .filter(|char| char.is_alphanumeric() || matches!(char, ' ' | '-' | '_'))
            .map(|char| if char == ' ' { '-' } else { char })
            .collect();
        assert!(known.insert(anchor), "{name}: two headings `{words}`");
    }
    known
}

#[test]
fn every_method_and_every_field_is_described() {
    let pages = pages();
    for method in berth_proto::access::METHODS {
        let path = method.path;
        let name = path.rsplit('/').next().expect("a name");
        let is_described = pages.values().any(|text| text.contains(&format!("`rpc {name}(")));
        assert!(is_described, "{path}");
    }
    let place = &pages["placement-service.md"];
    for part in [
        "| `pod` | 1 | [`k8s.io.api.core.v1.Pod`](",
        "| `PLACE_MODE_ASSUME` | 2 | The pod occupies its resources in the snapshot at once",
        "NOT_FOUND for a session that was never opened",
        "`rpc PlaceStream(stream PlaceStreamRequest) returns (stream PlaceStreamResponse)`",
        "\n\nRole `reader`, lane `decision`, changes nothing.\n",
    ] {
        assert!(place.contains(part), "{part}\nis missing in\n{place}");
    }
    let cluster = &pages["cluster-service.md"];
    assert!(cluster.contains("| `staleness_ms` | 8 | optional `uint64` |"), "{cluster}");
    assert!(cluster.contains("| `n_objects` | 10 | map of `string` to `uint32` |"), "{cluster}");
}
