//! The console in a real browser: headless Chromium, driven over WebDriver. Without one on the path these tests are skipped,
//! and say so; with `REQUIRE_CHROMIUM=1` they fail instead.

mod bytes;
mod hostile;
mod paths;
mod views;
mod world;
