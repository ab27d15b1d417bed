//! The engine's rooms are in the order of `floors.txt`, and no files import each other in a circle. The rules are
//! defined in `berth_tidy::floors`.

use std::path::Path;

#[test]
fn imports_run_down_and_never_in_circles() {
    let faults = berth_tidy::floors::check(Path::new(env!("CARGO_MANIFEST_DIR")), "floors.txt");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
