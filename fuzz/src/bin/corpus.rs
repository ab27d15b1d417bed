//! Packs and unpacks the corpora: `corpus unpack TARGET FOLDER` writes a file for each input, for libFuzzer;
//! `corpus pack TARGET FOLDER` adds the files of a folder to `corpus/TARGET.txt`.

use std::path::Path;
use std::process::ExitCode;

use berth_fuzz::{TARGETS, corpus};

const USAGE: &str = "usage: corpus unpack|pack TARGET FOLDER";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(done) => {
            eprintln!("{done}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[String]) -> Result<String, String> {
    let [command, target, folder] = words else { return Err(USAGE.to_owned()) };
    if !TARGETS.iter().any(|known| known.name == target) {
        return Err(format!("`{target}` is not a target"));
    }
    let folder = Path::new(folder);
    let done = match command.as_str() {
        "unpack" => corpus::unpack(target, folder).map(|n| format!("{n} files written")),
        "pack" => corpus::pack(target, folder).map(|n| format!("{n} inputs added")),
        _ => return Err(USAGE.to_owned()),
    };
    done.map_err(|error| format!("{target}, {}: {error}", folder.display()))
}
