//! [`Proxy`]: forwards one connection to a server and cuts it at a limit.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Time and manner in which a connection is cut.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cut {
    /// Cuts after this number of bytes from the server.
    pub(super) after_bytes: u64,
    /// Cuts after this time at the latest.
    pub(super) after: Duration,
    /// Cuts by a reset instead of a regular close.
    pub(super) resets: bool,
    /// Stops reading from the server after its first bytes, so that its buffers fill up.
    pub(super) stalls: bool,
}

/// A listener for one connection to `target`.
pub(super) struct Proxy {
    /// Host and port of the listener.
    pub(super) address: String,
    task: JoinHandle<io::Result<()>>,
}

impl Proxy {
    pub(super) async fn open(target: String, cut: Cut) -> io::Result<Proxy> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let task = tokio::spawn(async move {
            let (client, _) = listener.accept().await?;
            drop(listener);
            let server = TcpStream::connect(target).await?;
            forward(client, server, cut).await
        });
        Ok(Proxy { address, task })
    }

    /// Waits until the connection has ended, and gives up after `timeout`, for example if no client connected.
    pub(super) async fn ended(mut self, timeout: Duration) -> io::Result<()> {
        match tokio::time::timeout(timeout, &mut self.task).await {
            Ok(ended) => ended.unwrap_or_else(|error| Err(io::Error::other(error))),
            Err(_) => {
                self.task.abort();
                Ok(())
            }
        }
    }
}

async fn forward(mut client: TcpStream, mut server: TcpStream, cut: Cut) -> io::Result<()> {
    // With zero linger, closing sends a reset.
    if cut.resets {
        client.set_zero_linger()?;
        server.set_zero_linger()?;
    }
    let deadline = tokio::time::sleep(cut.after);
    tokio::pin!(deadline);
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let (mut from_client_buffer, mut from_server_buffer) = (vec![0; 16 << 10], vec![0; 16 << 10]);
    let mut n_from_server = 0_u64;
    loop {
        let reads_server = !(cut.stalls && n_from_server > 0);
        tokio::select! {
            () = &mut deadline => return Ok(()),
            n = from_client.read(&mut from_client_buffer) => match n? {
                0 => return Ok(()),
                n => to_server.write_all(&from_client_buffer[..n]).await?,
            },
            n = from_server.read(&mut from_server_buffer), if reads_server => {
                let n = n?;
                n_from_server += n as u64;
                if n == 0 || n_from_server >= cut.after_bytes {
                    return Ok(());
                }
                to_client.write_all(&from_server_buffer[..n]).await?;
            }
        }
    }
}
