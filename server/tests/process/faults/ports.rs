//! Ports that are in use.

use std::net::TcpListener;

use crate::served::{berth, ended};

#[test]
fn a_port_in_use_is_named_and_nothing_is_left_behind() {
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let held = holder.local_addr().unwrap().to_string();
    let directory = tempfile::tempdir().unwrap();
    let ledger = directory.path().join("ledger");
    for (grpc, http, expected) in [
        (
            &*held,
            "127.0.0.1:0",
            format!("cannot listen for gRPC on `{held}`: the address is already in use"),
        ),
        (
            "127.0.0.1:0",
            &*held,
            format!("cannot listen for HTTP on `{held}`: the address is already in use"),
        ),
        (&*held, &*held, format!("gRPC and HTTP cannot both listen on `{held}`")),
        ("192.0.2.1:7", "127.0.0.1:0", "192.0.2.1:7".to_owned()),
    ] {
        let mut command = berth();
        command.args(["serve", "--grpc-address", grpc, "--http-address", http]);
        let (status, log) = ended(command.arg("--insecure").arg("--ledger").arg(&ledger));
        assert_eq!(status, Some(1), "{log}");
        assert!(log.contains(&expected) && !log.contains("panicked"), "{log}");
        assert!(!log.contains("listening"), "{log}");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "a ledger was begun");
    }
    drop(holder);
}
