//! Processes of the demo with replicas: an etcd and servers that share it, on loopback. They end with the value.

use std::ffi::OsStr;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::cli::CliError;
use crate::clock;

/// Longest time to wait until a process listens.
const PATIENCE: Duration = Duration::from_secs(30);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(50);
/// Time limit of a look at `/readyz`.
const LOOK: Duration = Duration::from_secs(1);

/// The processes, and the folder with their data and logs.
pub(in crate::cli::demo) struct Processes {
    pub(in crate::cli::demo) replicas: Vec<Replica>,
    _etcd: Process,
    folder: TempDir,
}

/// A server.
pub(in crate::cli::demo) struct Replica {
    pub(super) name: String,
    grpc: SocketAddr,
    http: SocketAddr,
    process: Process,
}

impl Replica {
    pub(in crate::cli::demo) fn url(&self) -> String {
        format!("http://{}", self.grpc)
    }

    pub(in crate::cli::demo) fn http(&self) -> SocketAddr {
        self.http
    }
}

/// A process that is killed when the value is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // A process that has ended by itself cannot be killed.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Processes {
    /// Starts everything, and waits until it listens.
    ///
    /// # Errors
    /// There is no etcd on this machine, or a process ends.
    pub(super) async fn start(n_replicas: u32) -> Result<Processes, CliError> {
        let folder = tempfile::Builder::new().prefix("berth-demo-").tempdir()?;
        let [client, peer] = [free_address()?, free_address()?];
        let mut command = Command::new("etcd");
        let url = |address: SocketAddr| format!("http://{address}");
        command
            .args(["--name", "demo", "--data-dir"])
            .arg(folder.path().join("etcd"))
            .args(["--listen-client-urls", &url(client), "--advertise-client-urls", &url(client)])
            .args(["--listen-peer-urls", &url(peer), "--initial-advertise-peer-urls", &url(peer)])
            .args(["--initial-cluster", &format!("demo={}", url(peer))]);
        let etcd = spawn(command, folder.path(), "etcd").map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => CliError::Request(
                "`--replicas` needs etcd, and there is no `etcd` on the path; install it (Debian and Ubuntu: `apt-get \
                 install etcd-server`; macOS: `brew install etcd`; others: https://etcd.io/docs/latest/install), and \
                 run this again"
                    .to_owned(),
            ),
            _ => error.into(),
        })?;
        let mut processes = Processes { replicas: Vec::new(), _etcd: etcd, folder };
        await_listening(&mut processes._etcd, client, "etcd", processes.folder.path()).await?;
        for n in 1..=n_replicas {
            let replica = processes.start_replica(&format!("r{n}"), &url(client))?;
            processes.replicas.push(replica);
        }
        for Replica { name, grpc, process, .. } in &mut processes.replicas {
            await_listening(process, *grpc, name, processes.folder.path()).await?;
        }
        Ok(processes)
    }

    fn start_replica(&self, name: &str, etcd: &str) -> Result<Replica, CliError> {
        let [grpc, http] = [free_address()?, free_address()?];
        let mut command = Command::new(std::env::current_exe()?);
        for (variable, _) in std::env::vars_os().filter(|(name, _)| is_setting(name)) {
            command.env_remove(variable);
        }
        // The pods that the demo has placed are there for as long as it serves, and its calls may wait.
        command
            .env("BERTH_ASSUME_TTL", "0s")
            .args(["serve", "--grpc-address", &grpc.to_string()])
            .args(["--http-address", &http.to_string(), "--etcd", etcd])
            .args(["--replica-name", name, "--replica-address", &format!("http://{grpc}")]);
        let process = spawn(command, self.folder.path(), name)?;
        Ok(Replica { name: name.to_owned(), grpc, http, process })
    }

    /// The position of the replica that commits, once there is one.
    ///
    /// # Errors
    /// None commits for [`PATIENCE`].
    pub(super) async fn committer(&self) -> Result<usize, CliError> {
        let until = clock::now() + PATIENCE;
        while clock::now() < until {
            let commits = |replica: &Replica| {
                ready_text(replica.http).is_ok_and(|text| text.contains("this replica commits"))
            };
            if let Some(at) = self.replicas.iter().position(commits) {
                return Ok(at);
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(CliError::Request("no replica commits".to_owned()))
    }

    /// Kills a replica (SIGKILL); returns its name.
    pub(super) fn kill(&mut self, at: usize) -> String {
        self.replicas.remove(at).name
    }
}

/// The text of `/readyz?verbose`.
fn ready_text(address: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, LOOK)?;
    stream.set_read_timeout(Some(LOOK))?;
    write!(stream, "GET /readyz?verbose HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

fn spawn(mut command: Command, folder: &Path, name: &str) -> io::Result<Process> {
    let log = std::fs::File::create(log(folder, name))?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().map(Process)
}

fn log(folder: &Path, name: &str) -> std::path::PathBuf {
    folder.join(format!("{name}.log"))
}

async fn await_listening(
    process: &mut Process,
    address: SocketAddr,
    name: &str,
    folder: &Path,
) -> Result<(), CliError> {
    let until = clock::now() + PATIENCE;
    loop {
        let has_ended = process.0.try_wait()?.is_some();
        if !has_ended && TcpStream::connect_timeout(&address, LOOK).is_ok() {
            return Ok(());
        }
        if has_ended || clock::now() >= until {
            let log = std::fs::read_to_string(log(folder, name)).unwrap_or_default();
            let last = log.lines().next_back().unwrap_or("it says nothing");
            return Err(CliError::Request(format!("{name} does not start: {last}")));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Whether a variable would be a setting of the servers.
fn is_setting(name: &OsStr) -> bool {
    name.to_string_lossy().starts_with("BERTH_")
}

/// An address on loopback that nobody listens at now.
fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}
