//! A real etcd for tests: members as processes on loopback, in temporary folders. Without an `etcd` on the path (Debian:
//! `etcd-server`) the check is skipped and named; with `REQUIRE_ETCD=1` it fails instead.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::ports::free_address;
use crate::recorded::skip;

/// Longest time to wait until a member listens.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest time to wait until the members agree on another one, which on a busy machine takes several elections.
const REPLACING: Duration = Duration::from_secs(300);
/// Number of attempts to start: somebody else may take a port between two of them.
const N_ATTEMPTS: usize = 5;

/// Members of one etcd cluster. Dropping it ends them.
#[derive(Debug)]
pub struct Etcd {
    folder: tempfile::TempDir,
    members: Vec<Member>,
    /// Further flags of every member.
    flags: Vec<String>,
}

#[derive(Debug)]
struct Member {
    name: String,
    client: SocketAddr,
    peer: SocketAddr,
    process: Option<Child>,
}

impl Etcd {
    /// Starts `n` members with further flags, and waits until they listen. `None` if the check has to be skipped.
    ///
    /// # Panics
    /// If they do not start, or there is no etcd and `REQUIRE_ETCD` is set.
    #[must_use]
    pub fn start(n: usize, flags: &[&str]) -> Option<Etcd> {
        let is_there = Command::new("etcd").arg("--version").output().is_ok();
        if !is_there {
            let is_required = std::env::var_os("REQUIRE_ETCD").is_some();
            assert!(!is_required, "REQUIRE_ETCD=1, but there is no etcd on the path");
            skip("what needs a real etcd: there is none on the path");
            return None;
        }
        let flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        for attempt in 1.. {
            let members = (0..n).map(|n| Member {
                name: format!("m{n}"),
                client: free_address(),
                peer: free_address(),
                process: None,
            });
            let folder = tempfile::tempdir().expect("a temporary folder");
            let mut etcd = Etcd { folder, members: members.collect(), flags: flags.clone() };
            (0..n).for_each(|n| etcd.run(n, "new"));
            match (0..n).try_for_each(|n| etcd.await_listening(n)) {
                Ok(()) => return Some(etcd),
                Err(error) => assert!(attempt < N_ATTEMPTS, "{error}"),
            }
        }
        unreachable!("the last attempt has returned")
    }

    /// URLs of the members.
    #[must_use]
    pub fn endpoints(&self) -> Vec<String> {
        self.members.iter().map(|member| self.client_url(member)).collect()
    }

    /// Address at which a member takes clients.
    #[must_use]
    pub fn client_address(&self, n: usize) -> SocketAddr {
        self.members[n].client
    }

    /// Ends a member as a crash does.
    ///
    /// # Panics
    /// If it does not run.
    pub fn kill(&mut self, n: usize) {
        let mut process = self.members[n].process.take().expect("the member runs");
        process.kill().expect("the member runs");
        process.wait().expect("it ends");
    }

    /// Further flags of members that are started from now on.
    pub fn set_flags(&mut self, flags: &[&str]) {
        self.flags = flags.iter().map(|&flag| flag.to_owned()).collect();
    }

    /// Runs `etcdctl` on the cluster; false, and the check is named as skipped, if there is none.
    ///
    /// # Panics
    /// If it fails.
    #[must_use]
    pub fn control(&self, arguments: &[&str]) -> bool {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(["--endpoints", &self.endpoints().join(",")]);
        let Ok(output) = command.args(arguments).output() else {
            skip("a part of what needs a real etcd: there is no etcdctl on the path");
            return false;
        };
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "etcdctl {arguments:?}: {error}");
        true
    }

    /// Whether there is an `etcdctl`.
    #[must_use]
    pub fn has_control() -> bool {
        Command::new("etcdctl").arg("version").output().is_ok()
    }

    /// Runs `etcdctl` on one member; false if it fails, or there is none.
    #[must_use]
    pub fn control_member(&self, n: usize, arguments: &[&str]) -> bool {
        self.ask_member(n, arguments).is_ok()
    }

    /// Output of an `etcdctl` command on one member; an error has the command and its error output.
    fn ask_member(&self, n: usize, arguments: &[&str]) -> Result<String, String> {
        let endpoint = self.client_url(&self.members[n]);
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(["--endpoints", &endpoint]).args(arguments);
        let output = command.output().map_err(|error| format!("etcdctl: {error}"))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(format!("etcdctl {arguments:?}: {}", text(&output.stderr))),
        }
    }

    /// Takes a member out of the cluster, and puts one without data in its place, as after the loss of a machine.
    ///
    /// # Panics
    /// Without `etcdctl`, or if the other members do not agree in time.
    pub fn replace(&mut self, n: usize) {
        let other = (n + 1) % self.members.len();
        let name = self.members[n].name.clone();
        self.kill(n);
        let url = format!("http://{}", self.members[n].peer);
        let peer = format!("--peer-urls={url}");
        let has_url = |line: &&str| line.split(", ").nth(3) == Some(&*url);
        let until = Instant::now() + REPLACING;
        // An attempt that fails may have been carried out all the same, so only the list tells.
        let (mut old, mut last) = (None, String::new());
        loop {
            assert!(Instant::now() < until, "the member cannot be replaced: {last}");
            let listed = match self.ask_member(other, &["member", "list"]) {
                Ok(listed) => listed,
                Err(error) => {
                    last = error;
                    continue;
                }
            };
            let id = listed.lines().find(has_url).and_then(|line| line.split(", ").next());
            let old = &*old.get_or_insert_with(|| id.expect("the member is listed").to_owned());
            let tried = match id {
                Some(id) if id == old => self.ask_member(other, &["member", "remove", id]),
                Some(_) => break,
                None => self.ask_member(other, &["member", "add", &name, &peer]),
            };
            // An attempt that fails is seen in the next list.
            last = tried.err().unwrap_or(last);
        }
        std::fs::remove_dir_all(self.folder.path().join(&name)).expect("its data is there");
        self.start_again(n, "existing");
    }

    /// Starts a member again that was killed, with its data, and waits until it listens.
    ///
    /// # Panics
    /// If it does not start.
    pub fn restart(&mut self, n: usize) {
        self.start_again(n, "new");
    }

    fn start_again(&mut self, n: usize, state: &str) {
        for attempt in 1.. {
            self.run(n, state);
            match self.await_listening(n) {
                Ok(()) => return,
                Err(error) => assert!(attempt < N_ATTEMPTS, "{error}"),
            }
        }
    }

    /// Stops a member without ending it, or lets it go on.
    ///
    /// # Panics
    /// If it does not run.
    pub fn pause(&self, n: usize, is_paused: bool) {
        let process = self.members[n].process.as_ref().expect("the member runs");
        let signal = if is_paused { "-STOP" } else { "-CONT" };
        let sent = Command::new("kill").args([signal, &process.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "the signal is sent");
    }

    /// Time that cores have spent in the members that run; none where the system does not tell.
    #[must_use]
    pub fn cpu_time(&self) -> Duration {
        let running = self.members.iter().filter_map(|member| member.process.as_ref());
        let threads = running
            .filter_map(|process| std::fs::read_dir(format!("/proc/{}/task", process.id())).ok())
            .flatten();
        let on_core = threads.filter_map(|thread| {
            let text = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
            text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
        });
        on_core.sum()
    }

    /// Starts a member; `state` says whether its cluster is new, and counts for one without data.
    fn run(&mut self, n: usize, state: &str) {
        let url = |address: SocketAddr| format!("http://{address}");
        let clients = self.client_url(&self.members[n]);
        let cluster = self.members.iter().map(|member| {
            let Member { name, peer, .. } = member;
            format!("{name}=http://{peer}")
        });
        let cluster = cluster.collect::<Vec<_>>().join(",");
        let Member { name, peer, .. } = &self.members[n];
        let data = self.folder.path().join(name);
        let process = Command::new("etcd")
            .args(["--name", name, "--data-dir"])
            .arg(&data)
            .args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients])
            .args(["--listen-peer-urls", &url(*peer), "--initial-advertise-peer-urls", &url(*peer)])
            .args(["--initial-cluster", &cluster, "--initial-cluster-state", state])
            .args(&self.flags)
            .stdout(Stdio::null())
            .stderr(log(self.folder.path(), name))
            .spawn()
            .expect("etcd starts");
        self.members[n].process = Some(process);
    }

    /// Members that have a certificate are asked over TLS.
    fn client_url(&self, member: &Member) -> String {
        let has_tls = self.flags.iter().any(|flag| flag == "--cert-file");
        format!("{}://{}", if has_tls { "https" } else { "http" }, member.client)
    }

    /// Waits until a member listens. An error has the end of its log.
    fn await_listening(&mut self, n: usize) -> Result<(), String> {
        let log = log_path(self.folder.path(), &self.members[n].name);
        let Member { client, process, .. } = &mut self.members[n];
        let process = process.as_mut().expect("the member was started");
        let until = Instant::now() + PATIENCE;
        loop {
            let ended = process.try_wait().expect("it is a child");
            let problem = match ended {
                Some(status) => format!("ended: {status}"),
                None if TcpStream::connect(*client).is_ok() => return Ok(()),
                None if Instant::now() >= until => "does not listen".to_owned(),
                None => {
                    thread::sleep(Duration::from_millis(20));
                    continue;
                }
            };
            let log = std::fs::read_to_string(log).unwrap_or_default();
            let last: Vec<&str> = log.lines().rev().take(5).collect();
            return Err(format!("member {n} of etcd at {client} {problem}: {last:#?}"));
        }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        for process in self.members.iter_mut().filter_map(|member| member.process.as_mut()) {
            // It may have ended by itself.
            drop(process.kill());
            drop(process.wait());
        }
    }
}

/// The log of a member, beside its data.
fn log(folder: &Path, name: &str) -> Stdio {
    let log = std::fs::File::options().create(true).append(true).open(log_path(folder, name));
    log.map_or_else(|_| Stdio::null(), Stdio::from)
}

fn log_path(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.log"))
}
