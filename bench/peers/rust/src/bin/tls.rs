//! "Pong!", or files of a directory, over TLS, with hyper and rustls. Usage: hyper-tls PORT CORES DIRECTORY|- CERTIFICATE KEY [h2].
//! With `h2` it speaks HTTP/2, otherwise HTTP/1.1.

use bytes::Bytes;
use futures_util::TryStreamExt;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{HeaderValue, CONTENT_LENGTH, CONTENT_TYPE};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use millrace_bench_peers::{argument, listen, runtime};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::fs::File;
use tokio::net::TcpStream;
use tokio_rustls::rustls::crypto::aws_lc_rs::Ticketer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::TlsAcceptor;
use tokio_util::io::ReaderStream;

type Body = BoxBody<Bytes, std::io::Error>;

/// How much of a file is read at a time.
const PIECE: usize = 65536;

fn bytes(content: &'static [u8]) -> Body {
    Full::new(Bytes::from_static(content))
        .map_err(|never| match never {})
        .boxed()
}

fn pong() -> Response<Body> {
    let mut response = Response::new(bytes(b"Pong!"));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}

async fn file(directory: &Path, path: &str) -> Response<Body> {
    let name = path.trim_start_matches('/');
    let opened = if name.contains("..") {
        None
    } else {
        File::open(directory.join(name)).await.ok()
    };
    let Some(file) = opened else {
        let mut response = Response::new(bytes(b""));
        *response.status_mut() = StatusCode::NOT_FOUND;
        return response;
    };
    let size = file.metadata().await.map_or(0, |found| found.len());
    let pieces = ReaderStream::with_capacity(file, PIECE).map_ok(Frame::data);
    let mut response = Response::new(BodyExt::boxed(StreamBody::new(pieces)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_LENGTH, HeaderValue::from(size));
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("application/octet-stream"),
    );
    response
}

async fn serve(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    directory: Option<Arc<PathBuf>>,
    is_http2: bool,
) {
    if stream.set_nodelay(true).is_err() {
        return;
    }
    // A client may leave. That is not reported.
    let Ok(protected) = acceptor.accept(stream).await else {
        return;
    };
    let service = service_fn(move |request: Request<Incoming>| {
        let directory = directory.clone();
        async move {
            Ok::<_, std::io::Error>(match directory {
                Some(found) => file(&found, request.uri().path()).await,
                None => pong(),
            })
        }
    });
    let stream = TokioIo::new(protected);
    let _ = if is_http2 {
        http2::Builder::new(TokioExecutor::new())
            .serve_connection(stream, service)
            .await
    } else {
        http1::Builder::new()
            .pipeline_flush(true)
            .serve_connection(stream, service)
            .await
    };
}

fn settings(certificate: &str, key: &str, protocol: &[u8]) -> Result<ServerConfig, Box<dyn Error>> {
    let chain = CertificateDer::pem_file_iter(certificate)?.collect::<Result<Vec<_>, _>>()?;
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::from_pem_file(key)?)?;
    config.ticketer = Ticketer::new()?;
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(config)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, _, _, directory, certificate, key, protocol @ ..] = arguments.as_slice() else {
        panic!("usage: hyper-tls PORT CORES DIRECTORY|- CERTIFICATE KEY [h2]");
    };
    let is_http2 = !protocol.is_empty();
    let protocol: &[u8] = if is_http2 { b"h2" } else { b"http/1.1" };
    let directory = (directory != "-").then(|| Arc::new(PathBuf::from(directory)));
    let acceptor = TlsAcceptor::from(Arc::new(settings(certificate, key, protocol)?));
    runtime(argument(2))?.block_on(async {
        let listener = listen(argument(1) as u16)?;
        let ended: std::io::Result<()> = tokio::spawn(async move {
            loop {
                if let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(serve(
                        stream,
                        acceptor.clone(),
                        directory.clone(),
                        is_http2,
                    ));
                }
            }
        })
        .await?;
        Ok(ended?)
    })
}
