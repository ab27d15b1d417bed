//! Connections that break: what a client sends and the server answers goes through here, until a limit is reached.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// How one connection ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    /// After so many bytes of the server's answers.
    pub(super) after_bytes: u64,
    /// Or after this time.
    pub(super) after: Duration,
    /// With a reset, or as if both sides had been closed.
    pub(super) resets: bool,
    /// From the first answer on nothing more is read of the server: its buffers fill up.
    pub(super) stalls: bool,
}

/// A listener for one connection to `target`.
pub(super) struct Proxy {
    /// Where it listens: host and port.
    pub(super) address: String,
    task: JoinHandle<io::Result<()>>,
}

impl Proxy {
    pub(super) async fn open(target: String, end: End) -> io::Result<Proxy> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let task = tokio::spawn(async move {
            let (client, _) = listener.accept().await?;
            drop(listener);
            let server = TcpStream::connect(target).await?;
            forward(client, server, end).await
        });
        Ok(Proxy { address, task })
    }

    /// Waits until the connection has ended; ends it where nobody ever came.
    pub(super) async fn ended(mut self, patience: Duration) -> io::Result<()> {
        match tokio::time::timeout(patience, &mut self.task).await {
            Ok(ended) => ended.unwrap_or_else(|error| Err(io::Error::other(error))),
            Err(_) => {
                self.task.abort();
                Ok(())
            }
        }
    }
}

async fn forward(mut client: TcpStream, mut server: TcpStream, end: End) -> io::Result<()> {
    // Closing with this set sends a reset instead of the end of the stream.
    if end.resets {
        client.set_zero_linger()?;
        server.set_zero_linger()?;
    }
    let deadline = tokio::time::sleep(end.after);
    tokio::pin!(deadline);
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let (mut asked, mut answered) = (vec![0; 16 << 10], vec![0; 16 << 10]);
    let mut n_answered = 0_u64;
    loop {
        let reads_on = !(end.stalls && n_answered > 0);
        tokio::select! {
            () = &mut deadline => return Ok(()),
            n = from_client.read(&mut asked) => match n? {
                0 => return Ok(()),
                n => to_server.write_all(&asked[..n]).await?,
            },
            n = from_server.read(&mut answered), if reads_on => {
                let n = n?;
                n_answered += n as u64;
                if n == 0 || n_answered >= end.after_bytes {
                    return Ok(());
                }
                to_client.write_all(&answered[..n]).await?;
            }
        }
    }
}
