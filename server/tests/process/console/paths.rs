//! Ways through the console, as a person goes them.

use berth_testing::browser::{Browser, WIDE};

use super::world::{WAITING, World};
use crate::reservations::cluster;
use crate::served::{Served, serve};

#[tokio::test]
async fn why_a_pod_waits_is_found_from_the_beginning_in_four_clicks() {
    let Some(browser) = Browser::start().await else { return };
    let world = World::start().await;
    browser.open(&world.url("")).await;
    // No click: the causes, and what would help against each.
    browser.wait_for("document.querySelector('main .remedies li')").await;
    let page = browser.read("document.querySelector('main').innerText").await;
    assert!(page.as_str().unwrap().contains("Insufficient cpu"), "{page}");
    // One click: the account of the first pod of a cause.
    browser.click("main .card a[href*='/pod/batch/huge']").await;
    browser.wait_for("location.hash.startsWith('#/pod/batch/huge')").await;
    browser.settle().await;
    // And from the beginning to a pod whose name is known: its name, and Enter.
    browser.open(&world.url("")).await;
    browser.settle().await;
    browser.enter("#find-text", WAITING).await;
    browser.wait_for(&format!("location.hash === '#/pod/{WAITING}'")).await;
    browser.settle().await;
    let page = browser.read("document.querySelector('main').innerText").await;
    let page = page.as_str().unwrap();
    for part in [WAITING, "Insufficient cpu", "48"] {
        assert!(page.contains(part), "`{part}` is not in\n{page}");
    }
    browser.wait_for("document.querySelector('main .remedies li')").await;
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    world.served.stop();
}

#[tokio::test]
async fn the_way_leads_everywhere_by_keyboard() {
    let Some(browser) = Browser::start().await else { return };
    let world = World::start().await;
    browser.look(WIDE).await;
    browser.open(&world.url("")).await;
    browser.settle().await;
    let links = browser.read("document.querySelectorAll('nav a').length").await;
    assert_eq!(links, 8);
    for i in 1..=8 {
        // The link has the focus, and Enter follows it.
        browser.read(&format!("document.querySelectorAll('nav a')[{}].focus()", i - 1)).await;
        browser.press_enter().await;
        let current = "document.querySelector('nav a[aria-current=page]')";
        browser
            .wait_for(&format!("{current} === document.querySelectorAll('nav a')[{}]", i - 1))
            .await;
        browser.settle().await;
        browser
            .wait_for(
                "document.activeElement?.id === 'view' || document.activeElement?.closest('nav')",
            )
            .await;
    }
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    world.served.stop();
}

#[tokio::test]
async fn a_server_that_asks_for_a_token_gets_it_once() {
    let Some(browser) = Browser::start().await else { return };
    let directory = tempfile::tempdir().unwrap();
    let tokens = directory.path().join("tokens.csv");
    std::fs::write(&tokens, "right,ada,1,berth:reader\n").unwrap();
    let cluster = cluster(directory.path());
    let mut command = serve();
    let served = Served::start(command.args(["--cluster", &cluster, "--token-file"]).arg(&tokens));
    served.wait_for("loaded");
    browser.open(&format!("http://{}/#/nodes", served.http)).await;
    browser.wait_for("document.querySelector('dialog[open] #token')").await;
    browser.enter("#token", "wrong").await;
    browser.wait_for("document.querySelector('dialog[open]')?.innerText.includes('refused')").await;
    browser.enter("#token", "right").await;
    browser
        .wait_for("!document.querySelector('dialog') && document.querySelector('main canvas')")
        .await;
    browser.click("nav a[href='#/service']").await;
    browser.settle().await;
    browser.wait_for("!document.querySelector('dialog')").await;
    let kept = browser
        .read("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")
        .await;
    assert!(!kept.as_str().unwrap().contains("right"), "{kept}");
    served.stop();
}
