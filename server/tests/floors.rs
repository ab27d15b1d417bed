//! The server's rooms stand in the order of `floors.txt`: no import runs up. Circles of files inside a room are not held yet.
//! The rules are defined in `berth_tidy::floors`.

use std::path::Path;

#[test]
fn imports_run_down() {
    let faults = berth_tidy::floors::check(Path::new(env!("CARGO_MANIFEST_DIR")), "floors.txt");
    let is_circle = |fault: &String| fault.contains("import each other in a circle");
    let faults: Vec<String> = faults.into_iter().filter(|fault| !is_circle(fault)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
