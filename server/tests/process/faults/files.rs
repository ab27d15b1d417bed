//! Files that are missing, unreadable or malformed: the start is refused, the message names the file, and the file
//! stays as it is.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use berth_server::ledger::{Embedded, Key, Ledger as _, Revision, Transaction};

use crate::served::{Served, berth, cluster_file, ended, serve};

/// A file that a flag of `berth serve` names.
struct Named {
    /// The flag that names the file.
    flag: &'static str,
    /// Further arguments that the flag needs.
    further: &'static [&'static str],
    /// Makes valid content.
    valid: fn() -> Vec<u8>,
    /// Whether an empty file is valid.
    may_be_empty: bool,
}

fn text(text: &'static str) -> Vec<u8> {
    text.as_bytes().to_vec()
}

fn certificate() -> rcgen::CertifiedKey<rcgen::KeyPair> {
    rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap()
}

/// Every file that `berth serve` reads. `OTHERS/` stands for a directory with a valid `tls.crt`, `tls.key` and
/// `cluster.yaml`.
const FILES: &[Named] = &[
    Named {
        flag: "--config",
        further: &[],
        valid: || text("apiVersion: berth.dev/v1\nkind: BerthConfiguration\n"),
        may_be_empty: false,
    },
    Named {
        flag: "--scheduler-config",
        further: &[],
        valid: || {
            text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
        },
        may_be_empty: false,
    },
    Named {
        flag: "--cluster",
        further: &[],
        valid: || text("kind: Node\nmetadata: {name: n}\n"),
        may_be_empty: false,
    },
    Named {
        flag: "--tls-cert-file",
        further: &["--tls-private-key-file", "OTHERS/tls.key"],
        valid: || certificate().cert.pem().into_bytes(),
        may_be_empty: false,
    },
    Named {
        flag: "--tls-private-key-file",
        further: &["--tls-cert-file", "OTHERS/tls.crt"],
        valid: || certificate().signing_key.serialize_pem().into_bytes(),
        may_be_empty: false,
    },
    Named {
        flag: "--tls-client-ca-file",
        further: &["--tls-cert-file", "OTHERS/tls.crt", "--tls-private-key-file", "OTHERS/tls.key"],
        valid: || certificate().cert.pem().into_bytes(),
        may_be_empty: false,
    },
    Named {
        flag: "--token-file",
        further: &[],
        valid: || text("0123456789abcdef0123456789abcdef,me,1,\"berth:admin\"\n"),
        // Nobody has a token then, which is safe.
        may_be_empty: true,
    },
    Named {
        flag: "--kubeconfig",
        further: &["--kube"],
        valid: || text("apiVersion: v1\nkind: Config\n"),
        may_be_empty: false,
    },
];

/// `berth serve` with `path` for `named`'s flag and valid files for everything else.
fn serve_with(directory: &Path, named: &Named, path: &Path) -> Command {
    let mut command = serve();
    let others = directory.join("others");
    for argument in named.further {
        command.arg(argument.replace("OTHERS", &others.display().to_string()));
    }
    command.arg(named.flag).arg(path);
    command
}

fn others(directory: &Path) {
    let others = directory.join("others");
    fs::create_dir(&others).unwrap();
    let pair = certificate();
    fs::write(others.join("tls.crt"), pair.cert.pem()).unwrap();
    fs::write(others.join("tls.key"), pair.signing_key.serialize_pem()).unwrap();
    cluster_file(&others);
}

/// Checks that the command ends with status 1 or 2 and a message that names the file; returns its log.
fn is_refused(command: &mut Command, path: &Path, what: &str) -> String {
    let (status, log) = ended(command);
    assert!(matches!(status, Some(1 | 2)), "{what}: {status:?}\n{log}");
    assert!(!log.contains("panicked"), "{what}: {log}");
    let last = log.lines().rev().find(|line| line.starts_with("berth: ")).unwrap_or_default();
    let shown = path.display().to_string();
    assert!(log.contains(&shown), "{what} does not name `{shown}`: {log}");
    assert!(!last.is_empty() || status == Some(2), "{what}: {log}");
    log
}

#[test]
fn every_file_that_cannot_be_used_is_named() {
    let directory = tempfile::tempdir().unwrap();
    others(directory.path());
    for named in FILES {
        let flag = named.flag;
        let path = directory.path().join(flag.trim_start_matches('-'));
        let refused = |what: &str| {
            is_refused(
                &mut serve_with(directory.path(), named, &path),
                &path,
                &format!("{flag}: {what}"),
            )
        };
        refused("missing");
        assert!(!path.exists(), "{flag}: a missing file was made");
        fs::create_dir(&path).unwrap();
        refused("a directory");
        fs::remove_dir(&path).unwrap();
        if !named.may_be_empty {
            fs::write(&path, "").unwrap();
            refused("empty");
        }
        for (what, bytes) in [
            ("garbage", b"\x00\xff\x13garbage \x1b[2J {[".to_vec()),
            ("another kind of file", b"kind: [unclosed\n -----BEGIN NOTHING-----\n\"".to_vec()),
            // Most files mean something else when they are cut in the middle.
            ("half", (named.valid)()[..(named.valid)().len() / 2].to_vec()),
        ] {
            fs::write(&path, &bytes).unwrap();
            let log = refused(what);
            assert!(!log.contains('\u{1b}'), "{flag}: {what} steers the terminal: {log:?}");
            assert_eq!(fs::read(&path).unwrap(), bytes, "{flag}: {what} was changed");
        }
        fs::remove_file(&path).unwrap();
    }
}

/// Root can read every file, so this checks something only for other users.
#[test]
fn a_file_that_may_not_be_read_is_named() {
    let directory = tempfile::tempdir().unwrap();
    others(directory.path());
    for named in FILES {
        let path = directory.path().join(named.flag.trim_start_matches('-'));
        fs::write(&path, (named.valid)()).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
        if fs::read(&path).is_err() {
            is_refused(&mut serve_with(directory.path(), named, &path), &path, named.flag);
        }
    }
}

/// A private key is a secret, even in a file that is unusable.
#[test]
fn the_content_of_a_bad_file_is_not_logged() {
    let directory = tempfile::tempdir().unwrap();
    others(directory.path());
    for flag in ["--tls-private-key-file", "--token-file"] {
        let named = FILES.iter().find(|named| named.flag == flag).unwrap();
        let path = directory.path().join(flag.trim_start_matches('-'));
        fs::write(&path, "hunter2-is-my-secret and no more\nhunter2-is-my-secret\n").unwrap();
        let log = is_refused(&mut serve_with(directory.path(), named, &path), &path, flag);
        assert!(!log.contains("hunter2"), "{log}");
    }
}

/// A ledger with fifty records, as a closed file.
fn ledger(path: &Path) -> Vec<u8> {
    let ledger = Embedded::open(path, Revision(0)).unwrap();
    for n in 1..=50 {
        let writes = vec![(Key::volume(&format!("v{n}")), Some(vec![n; 200]))];
        ledger.commit(Transaction { writes, ..Transaction::default() }).unwrap();
    }
    drop(ledger);
    fs::read(path).unwrap()
}

#[test]
fn a_ledger_that_is_torn_or_no_ledger_is_never_begun_anew() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger");
    let whole = ledger(&path);
    let turned = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        bytes
    };
    let n_bytes = whole.len();
    for (what, bytes, expected) in [
        ("empty", Vec::new(), "is not a ledger: it is empty"),
        ("text", b"kind: List\n".repeat(1_000), "is not a ledger: it does not begin like one"),
        ("one byte", b"r".to_vec(), "is not a ledger: it does not begin like one"),
        ("cut to its half", whole[..n_bytes / 2].to_vec(), "the ledger `"),
        ("cut to an eighth", whole[..n_bytes / 8].to_vec(), "the ledger `"),
        ("a bit of its magic turned", turned(3), "`"),
    ] {
        fs::write(&path, &bytes).unwrap();
        let mut command = serve();
        let log = is_refused(command.arg("--ledger").arg(&path), &path, what);
        assert!(log.contains(expected), "{what}: {log}");
        let is_advice =
            log.contains("; it is left as it is; ") || log.contains("; a ledger is a file ");
        assert!(is_advice, "{what}: nothing to do is said: {log}");
        assert_eq!(fs::read(&path).unwrap(), bytes, "{what}: the file was changed");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "{what}: files were left");
    }
    // With its original content the file is a ledger again.
    fs::write(&path, &whole).unwrap();
    Served::start(serve().arg("--ledger").arg(&path)).stop();
}

#[test]
fn a_ledger_where_no_file_can_be_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    for (path, reason) in [
        (directory.path().to_owned(), "directory"),
        (directory.path().join("nowhere/ledger"), "No such file or directory"),
        (file.join("ledger"), "Not a directory"),
        (Path::new("/dev/full").to_owned(), "ledger"),
    ] {
        let log = is_refused(serve().arg("--ledger").arg(&path), &path, reason);
        assert!(log.contains(reason), "{log}");
    }
    // Only root can create files in a directory that nobody may write to.
    let closed = directory.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
    let path = closed.join("ledger");
    if fs::write(&path, "").is_err() {
        let log = is_refused(serve().arg("--ledger").arg(&path), &path, "read-only directory");
        assert!(log.contains("in a directory where it may make one"), "{log}");
    }
}

#[test]
fn a_ledger_that_another_process_holds_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger");
    let first = Served::start(serve().arg("--ledger").arg(&path));
    let log = is_refused(serve().arg("--ledger").arg(&path), &path, "in use");
    assert!(log.contains("is in use by another process; a ledger has one server"), "{log}");
    first.stop();
}

/// Commands that read files name an unreadable file too.
#[test]
fn a_command_names_the_file_that_it_cannot_read() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing.yaml");
    for arguments in [
        vec!["place", "--cluster", "MISSING", "pods.yaml"],
        vec!["explain", "--cluster", "MISSING", "pods.yaml"],
        vec!["conformance", "MISSING"],
        vec!["lifecycle", "phase", "MISSING"],
    ] {
        let shown = missing.display().to_string();
        let arguments = arguments.iter().map(|argument| argument.replace("MISSING", &shown));
        let (status, log) = ended(berth().args(arguments.clone()));
        assert_eq!(status, Some(1), "{log}");
        assert!(log.contains(&shown), "{:?}: {log}", arguments.collect::<Vec<_>>());
    }
}
