//! A browser: Chromium's driver as a process of its own, and what a test does with a page. Without one on the path the check
//! is skipped and named; with `REQUIRE_CHROMIUM=1` it fails instead.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fantoccini::wd::{Capabilities, WebDriverCompatibleCommand};
use fantoccini::{Client, ClientBuilder, Locator};
use http::Method;
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use url::{ParseError, Url};

use crate::recorded::skip;

/// Time limit of a wait, long because the machine may be slow and loaded.
const PATIENCE: Duration = Duration::from_secs(120);

/// Flags without which Chromium asks other hosts for this and that, or cannot run in a container.
const FLAGS: [&str; 9] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
];

/// How the page is looked at.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// Width of the window in pixels.
    pub width: u32,
    /// Whether the reader prefers dark pages.
    pub is_dark: bool,
}

/// What a test looks with unless it is about looks.
pub const WIDE: Look = Look { width: 1_280, is_dark: false };

/// A browser with one page. It does not outlive its test.
pub struct Browser {
    client: Client,
    driver: Child,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts one; `None` if there is none here, which is said.
    pub async fn start() -> Option<Browser> {
        let chromium = on_path(&["chromium", "chromium-browser", "google-chrome"]);
        let Some((driver, chromium)) = on_path(&["chromedriver"]).zip(chromium) else {
            return missing("chromium and chromedriver are not on the path");
        };
        let profile = tempfile::tempdir().expect("a folder");
        let (mut driver, port) = start(&driver);
        let Some(port) = port else {
            end(&mut driver);
            return missing("chromedriver does not listen");
        };
        let mut flags: Vec<String> = FLAGS.map(str::to_owned).to_vec();
        flags.push(format!("--user-data-dir={}", profile.path().display()));
        let capabilities = json!({
            "goog:chromeOptions": {"binary": chromium, "args": flags},
            "goog:loggingPrefs": {"browser": "ALL"},
        });
        let capabilities: Capabilities = serde_json::from_value(capabilities).expect("an object");
        let connected = ClientBuilder::new(HttpConnector::new())
            .capabilities(capabilities)
            .connect(&format!("http://127.0.0.1:{port}"))
            .await;
        let client = match connected {
            Ok(client) => client,
            Err(error) => {
                end(&mut driver);
                return missing(&format!("chromium does not start: {error}"));
            }
        };
        let browser = Browser { client, driver, _profile: profile };
        browser.look(WIDE).await;
        Some(browser)
    }

    /// Looks with another window.
    pub async fn look(&self, Look { width, is_dark }: Look) {
        let height = if width < 600 { 760 } else { 800 };
        let metrics = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600,
        });
        self.devtools("Emulation.setDeviceMetricsOverride", metrics).await;
        let scheme = if is_dark { "dark" } else { "light" };
        let features = json!([
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]);
        self.devtools("Emulation.setEmulatedMedia", json!({"features": features})).await;
    }

    /// Opens an address anew.
    pub async fn open(&self, url: &str) {
        // Only another document is loaded anew.
        self.client.goto("about:blank").await.expect("an empty page");
        self.client.goto(url).await.expect("the page opens");
    }

    /// The value of an expression in the page.
    pub async fn read(&self, expression: &str) -> Value {
        let script = format!("return {expression}");
        self.client.execute(&script, Vec::new()).await.expect("the expression has a value")
    }

    /// Waits until an expression is true.
    pub async fn wait_for(&self, expression: &str) {
        let start = Instant::now();
        while self.read(&format!("Boolean({expression})")).await != Value::Bool(true) {
            if start.elapsed() > PATIENCE {
                let page = self.read("document.body.innerText").await;
                panic!(
                    "`{expression}` does not become true; {:?}\n{page}",
                    self.complaints().await
                );
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until the view is there, and until it has been the same for a while.
    pub async fn settle(&self) {
        self.wait_for(
            "document.querySelector('main h1') && !document.querySelector('main .loading')",
        )
        .await;
        let (start, mut before) = (Instant::now(), String::new());
        loop {
            tokio::time::sleep(Duration::from_millis(400)).await;
            let now = self.outline().await;
            if now == before || start.elapsed() > PATIENCE {
                return;
            }
            before = now;
        }
    }

    /// Clicks on the first element that a selector finds, as a person would: it has to be in sight.
    pub async fn click(&self, selector: &str) {
        self.wait_for(&format!("document.querySelector({})", Value::from(selector))).await;
        let element = self.client.find(Locator::Css(selector)).await.expect(selector);
        element.click().await.expect(selector);
    }

    /// Types into the first element that a selector finds, and presses Enter.
    pub async fn enter(&self, selector: &str, text: &str) {
        let element = self.client.find(Locator::Css(selector)).await.expect(selector);
        element.send_keys(&format!("{text}\u{e007}")).await.expect(selector);
    }

    /// Presses Enter on what has the focus.
    pub async fn press_enter(&self) {
        for kind in ["rawKeyDown", "char", "keyUp"] {
            let key = json!({"type": kind, "key": "Enter", "code": "Enter", "text": "\r", "windowsVirtualKeyCode": 13});
            self.devtools("Input.dispatchKeyEvent", key).await;
        }
    }

    /// What the view is made of: headings, forms, pictures and tables, a line each, with every number as `0`.
    pub async fn outline(&self) -> String {
        let outline = self.client.execute(OUTLINE, Vec::new()).await.expect("an outline");
        outline.as_str().expect("a text").to_owned()
    }

    /// What the browser complains of since the last time, the policy for content included.
    pub async fn complaints(&self) -> Vec<String> {
        let logged = self.client.issue_cmd(Extra::Log).await.expect("a log");
        let logged: Vec<Value> = serde_json::from_value(logged).expect("a list");
        logged.iter().map(|entry| format!("{}: {}", entry["level"], entry["message"])).collect()
    }

    /// A picture of the page in WebP.
    pub async fn picture(&self) -> Vec<u8> {
        let asked = json!({"format": "webp", "quality": 60});
        let answer = self.devtools("Page.captureScreenshot", asked).await;
        STANDARD.decode(answer["data"].as_str().expect("a picture")).expect("base64")
    }

    async fn devtools(&self, method: &'static str, parameters: Value) -> Value {
        self.client.issue_cmd(Extra::Devtools(method, parameters)).await.expect(method)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        end(&mut self.driver);
    }
}

/// Ends a driver with its browser, which is of the group that it leads.
fn end(driver: &mut Child) {
    let group = format!("-{}", driver.id());
    drop(Command::new("kill").args(["-KILL", "--", &group]).status());
    drop(driver.wait());
}

/// Says why there is no browser.
fn missing(reason: &str) -> Option<Browser> {
    let is_required = std::env::var_os("REQUIRE_CHROMIUM").is_some_and(|it| it == "1");
    assert!(!is_required, "REQUIRE_CHROMIUM=1: {reason}");
    skip(&format!("the console in a browser: {reason}"));
    None
}

/// Commands beyond the standard's.
#[derive(Debug)]
enum Extra {
    Devtools(&'static str, Value),
    Log,
}

impl WebDriverCompatibleCommand for Extra {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, ParseError> {
        let session = session.unwrap_or_default();
        base.join(&match self {
            Extra::Devtools(..) => format!("session/{session}/goog/cdp/execute"),
            Extra::Log => format!("session/{session}/se/log"),
        })
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        let body = match self {
            Extra::Devtools(method, parameters) => json!({"cmd": method, "params": parameters}),
            Extra::Log => json!({"type": "browser"}),
        };
        (Method::POST, Some(body.to_string()))
    }
}

fn on_path(names: &[&str]) -> Option<PathBuf> {
    let folders: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
    names.iter().find_map(|name| folders.iter().map(|it| it.join(name)).find(|it| it.is_file()))
}

/// Starts the driver; returns the port that it listens on, if it does.
fn start(driver: &Path) -> (Child, Option<u16>) {
    let mut command = Command::new(driver);
    command
        .process_group(0)
        .arg("--port=0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().expect("the driver starts");
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let port = lines.find_map(|line| {
        let line = line.ok()?;
        let (_, port) = line.split_once("successfully on port ")?;
        port.trim_end_matches('.').parse().ok()
    });
    // What it says later is read by nobody, and must not stop it.
    std::thread::spawn(move || lines.for_each(drop));
    (child, port)
}

const OUTLINE: &str = r#"
const shown = (element) => element.checkVisibility({visibilityProperty: true});
const words = (text) => text.trim().replace(/\s+/g, " ").replace(/\d[\d.,:\u2009\u202f]*/g, "0");
const name = (element) => words(element.getAttribute("aria-label") ?? element.textContent);
const lines = [];
const kinds = "h1, h2, h3, caption, th[scope=col], label, button, summary, canvas, svg[role=img], [role=img], fieldset";
for (const element of document.querySelectorAll(`main :is(${kinds})`)) {
  if (shown(element) && !element.matches("tbody *")) {
    const kind = element.getAttribute("role") ?? element.tagName.toLowerCase();
    lines.push(kind === "fieldset" ? kind : `${kind}: ${name(element)}`);
  }
}
return lines.join("\n") + "\n";
"#;
