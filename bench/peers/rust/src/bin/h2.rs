//! Answers "Pong!" to every request by HTTP/2 in clear text, with hyper, after it has read the request's body. Usage:
//! hyper-h2 PORT CORES.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::header::{HeaderValue, CONTENT_TYPE};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use millrace_bench_peers::{argument, listen, runtime};
use tokio::net::TcpStream;

async fn pong(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let mut body = request.into_body();
    while !body.is_end_stream() {
        match body.frame().await {
            Some(frame) => drop(frame?),
            None => break,
        }
    }
    let mut response = Response::new(Full::new(Bytes::from_static(b"Pong!")));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(response)
}

async fn serve(stream: TcpStream) {
    if stream.set_nodelay(true).is_ok() {
        // A client may leave. That is not reported.
        let _ = http2::Builder::new(TokioExecutor::new())
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
