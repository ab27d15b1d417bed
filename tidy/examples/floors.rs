//! Prints the faults that a crate's floors test would fail with: `cargo run -p berth-tidy --example floors engine`.

use std::path::Path;

fn main() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for crate_name in std::env::args().skip(1) {
        let faults = berth_tidy::floors::check(&workspace.join(&crate_name), "floors.txt");
        faults.iter().for_each(|fault| eprintln!("{fault}"));
        eprintln!("{crate_name}: {} faults", faults.len());
    }
}
