//! Each view in four windows: what it is made of, that it fits, and that the browser has nothing to complain of.
//!
//! `BERTH_UPDATE=1` writes the outlines anew, and the pictures of `docs/console`.

use std::path::{Path, PathBuf};

use berth_proto::berth_v1::ListDecisionsRequest;
use berth_proto::berth_v1::decision_service_client::DecisionServiceClient;
use berth_testing::browser::{Browser, Look, WIDE};

use super::world::{WAITING, World};

/// The windows that each view is looked at in, with the ends of the pictures' names.
const LOOKS: [(&str, Look); 4] = [
    ("wide-light", WIDE),
    ("wide-dark", Look { is_dark: true, ..WIDE }),
    ("narrow-light", Look { width: 360, is_dark: false }),
    ("narrow-dark", Look { width: 360, is_dark: true }),
];

/// Has the decision made again, with the scores of its candidates.
const MAKE_AGAIN: &str = "[...document.querySelectorAll('main button')].find((it) => it.innerText.startsWith('Make it again')).click()";

fn is_updating() -> bool {
    std::env::var_os("BERTH_UPDATE").is_some_and(|it| it == "1")
}

fn folder(relative: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(relative);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// What a view is made of, without the figures that a picture tells.
async fn outline(browser: &Browser) -> String {
    let outline = browser.outline().await;
    let lines = outline.lines().map(|line| line.split(" Latest:").next().unwrap_or_default());
    lines.map(|line| format!("{line}\n")).collect()
}

/// The id of a recorded decision that had candidates, once it is in the record.
async fn decision(world: &World) -> String {
    let mut decisions = DecisionServiceClient::connect(world.served.url.clone()).await.unwrap();
    loop {
        let request = ListDecisionsRequest { pod_name: "api-8".to_owned(), ..Default::default() };
        let page = decisions.list(request).await.unwrap().into_inner();
        if let Some(found) = page.decisions.first() {
            return found.id.clone();
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn every_view_has_its_parts_in_every_window() {
    let Some(browser) = Browser::start().await else { return };
    let world = World::start().await;
    let decision = decision(&world).await;
    let views = [
        ("pending", "".to_owned()),
        ("pod", format!("#/pod/{WAITING}")),
        ("nodes", "#/nodes".to_owned()),
        ("node", "#/node/node-01".to_owned()),
        ("what-if", "#/what-if".to_owned()),
        ("drain", "#/drain?nodes=node-01,node-02".to_owned()),
        ("preemption", format!("#/preemption?pod={WAITING}")),
        ("decisions", "#/decisions".to_owned()),
        ("decision", format!("#/decision/{decision}")),
        ("policies", "#/policies".to_owned()),
        ("service", "#/service".to_owned()),
        ("find", "#/find?q=web-1".to_owned()),
    ];
    let (outlines, pictures) = (folder("tests/data/console"), folder("../docs/console"));
    let mut different = Vec::new();
    for (name, address) in views {
        for (look_name, look) in LOOKS {
            browser.look(look).await;
            browser.open(&world.url(&address)).await;
            browser.settle().await;
            if name == "decision" {
                browser.read(MAKE_AGAIN).await;
                browser
                    .wait_for("document.querySelector('main').innerText.includes('Ranking of')")
                    .await;
                browser.settle().await;
            }
            assert_eq!(browser.complaints().await, Vec::<String>::new(), "{name}, {look_name}");
            let over = browser.read("document.documentElement.scrollWidth - innerWidth").await;
            assert!(
                over.as_i64().is_some_and(|over| over <= 0),
                "{name}, {look_name}: {over} px over"
            );
            if is_updating() {
                let path = pictures.join(format!("{name}-{look_name}.webp"));
                std::fs::write(path, browser.picture().await).unwrap();
            }
            if look != WIDE {
                continue;
            }
            let (path, found) = (outlines.join(format!("{name}.txt")), outline(&browser).await);
            if is_updating() {
                std::fs::write(path, found).unwrap();
            } else if std::fs::read_to_string(&path).unwrap_or_default() != found {
                different.push(format!("{}:\n{found}", path.display()));
            }
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
    world.served.stop();
}
