//! "Pong!", or files of a directory, over HTTP/3, with quinn, h3 and rustls. Usage: quinn-h3 PORT CORES DIRECTORY|- CERTIFICATE KEY [ADDRESS].

use bytes::{Bytes, BytesMut};
use h3::server::{RequestResolver, RequestStream};
use h3_quinn::BidiStream;
use http::header::{HeaderValue, CONTENT_LENGTH, CONTENT_TYPE};
use http::{Response, StatusCode};
use quinn::crypto::rustls::QuicServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::fs::File;
use tokio::io::AsyncReadExt;
use tokio::runtime::Builder;

type Failure = Box<dyn Error + Send + Sync>;
type Stream = RequestStream<BidiStream<Bytes>, Bytes>;

/// How much of a file is read at a time.
const PIECE: usize = 65536;

async fn answer(stream: &mut Stream, status: StatusCode, kind: &'static str, size: u64) -> Result<(), Failure> {
    let mut response = Response::new(());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(size));
    Ok(stream.send_response(response).await?)
}

async fn file(stream: &mut Stream, directory: &Path, path: &str) -> Result<(), Failure> {
    let name = path.trim_start_matches('/');
    let opened = if name.contains("..") {
        None
    } else {
        File::open(directory.join(name)).await.ok()
    };
    let Some(mut file) = opened else {
        return answer(stream, StatusCode::NOT_FOUND, "text/plain", 0).await;
    };
    let size = file.metadata().await?.len();
    answer(stream, StatusCode::OK, "application/octet-stream", size).await?;
    loop {
        let mut piece = BytesMut::with_capacity(PIECE);
        if file.read_buf(&mut piece).await? == 0 {
            return Ok(());
        }
        stream.send_data(piece.freeze()).await?;
    }
}

/// Answers one request. The client may have left; that is not reported.
async fn serve(resolver: RequestResolver<h3_quinn::Connection, Bytes>, directory: Option<Arc<PathBuf>>) -> Result<(), Failure> {
    let (request, mut stream) = resolver.resolve_request().await?;
    match directory {
        Some(found) => file(&mut stream, &found, request.uri().path()).await?,
        None => {
            answer(&mut stream, StatusCode::OK, "text/plain", 5).await?;
            stream.send_data(Bytes::from_static(b"Pong!")).await?;
        }
    }
    Ok(stream.finish().await?)
}

async fn serve_connection(incoming: quinn::Incoming, directory: Option<Arc<PathBuf>>) -> Result<(), Failure> {
    let connection = h3_quinn::Connection::new(incoming.await?);
    let mut requests = h3::server::Connection::new(connection).await?;
    while let Some(resolver) = requests.accept().await? {
        tokio::spawn(serve(resolver, directory.clone()));
    }
    Ok(())
}

fn settings(certificate: &str, key: &str) -> Result<quinn::ServerConfig, Failure> {
    let chain = CertificateDer::pem_file_iter(certificate)?.collect::<Result<Vec<_>, _>>()?;
    let mut tls = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::from_pem_file(key)?)?;
    tls.alpn_protocols = vec![b"h3".to_vec()];
    Ok(quinn::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?)))
}

async fn run(address: SocketAddr, settings: quinn::ServerConfig, directory: Option<Arc<PathBuf>>) -> Result<(), Failure> {
    let endpoint = quinn::Endpoint::server(settings, address)?;
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(serve_connection(incoming, directory.clone()));
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, port, cores, directory, certificate, key, address @ ..] = arguments.as_slice() else {
        panic!("usage: quinn-h3 PORT CORES DIRECTORY|- CERTIFICATE KEY [ADDRESS]");
    };
    let address = match address {
        [given, ..] => given.parse()?,
        [] => IpAddr::V4(Ipv4Addr::LOCALHOST),
    };
    let directory = (directory != "-").then(|| Arc::new(PathBuf::from(directory)));
    let cores: usize = cores.parse()?;
    // As tokio's documentation advises.
    let runtime = if cores == 1 {
        Builder::new_current_thread().enable_all().build()?
    } else {
        Builder::new_multi_thread().worker_threads(cores).enable_all().build()?
    };
    runtime.block_on(run(SocketAddr::new(address, port.parse()?), settings(certificate, key)?, directory))
}
