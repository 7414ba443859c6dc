//! Shared by the Rust peers: the run-time system for a number of cores, and the listening socket.

use std::net::{Ipv4Addr, SocketAddr};
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::{Builder, Runtime};

/// Uses tokio's current-thread scheduler on one core and the work-stealing one on several, as its documentation advises.
pub fn runtime(cores: usize) -> std::io::Result<Runtime> {
    let mut builder = if cores == 1 {
        Builder::new_current_thread()
    } else {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(cores);
        builder
    };
    builder.enable_all().build()
}

/// A socket that listens on 127.0.0.1. Call it inside a runtime.
pub fn listen(port: u16) -> std::io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    socket.listen(4096)
}

/// A number from the command line.
pub fn argument(index: usize) -> usize {
    std::env::args()
        .nth(index)
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| panic!("argument {index} must be a number"))
}
