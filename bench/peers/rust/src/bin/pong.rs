//! Answers every request with "Pong!", with hyper. Usage: hyper-pong PORT CORES.

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{HeaderValue, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use millrace_bench_peers::{argument, listen, runtime};
use std::convert::Infallible;
use tokio::net::TcpStream;

async fn pong(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut response = Response::new(Full::new(Bytes::from_static(b"Pong!")));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(response)
}

async fn serve(stream: TcpStream) {
    if stream.set_nodelay(true).is_ok() {
        // A client may leave. That is not reported.
        let _ = http1::Builder::new()
            .pipeline_flush(true)
            .serve_connection(TokioIo::new(stream), service_fn(pong))
            .await;
    }
}

fn main() -> std::io::Result<()> {
    runtime(argument(2))?.block_on(async {
        let listener = listen(argument(1) as u16)?;
        tokio::spawn(async move {
            loop {
                if let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(serve(stream));
                }
            }
        })
        .await?
    })
}
