//! Ports for processes that tests start, which have to be told their ports before.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// The first port, and the number of ports: below those that systems give to outgoing connections, which would take the
/// port of a process before it listens.
const PORTS: (u16, u16) = (12_000, 20_000);
/// Number of ports by which two processes of tests are apart.
const PORTS_BY_PROCESS: u16 = 64;

/// An address on loopback that nobody listens at now, and that no other test of this process is given.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn free_address() -> SocketAddr {
    static N_GIVEN: AtomicU16 = AtomicU16::new(0);
    let (first, n_ports) = PORTS;
    let process = u16::try_from(std::process::id() % u32::from(n_ports)).expect("less than that");
    for _ in 0..n_ports {
        let given = N_GIVEN.fetch_add(1, Ordering::Relaxed);
        let port = process.wrapping_mul(PORTS_BY_PROCESS).wrapping_add(given) % n_ports;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, first + port));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
    panic!("no port of {first} and the {n_ports} after it is free")
}
