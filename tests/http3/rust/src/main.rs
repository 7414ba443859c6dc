//! Asks a server of files by HTTP/3, with quinn and h3: 300 files at once on one connection, and a large one. Usage: http3-client PORT ROOT: the
//! server at this port of the loopback interface has file0.txt to file99.txt, of 2,000 bytes more each, and large.bin; ROOT has the certificate
//! of the authority.
use std::{env, error::Error, net::SocketAddr, sync::Arc};

use bytes::{Buf, Bytes};
use h3::client::SendRequest;
use h3_quinn::OpenStreams;
use quinn::crypto::rustls::QuicClientConfig;
use rustls::pki_types::{pem::PemObject, CertificateDer};
use tokio::task::JoinSet;

type Failure = Box<dyn Error + Send + Sync>;

async fn get(mut sender: SendRequest<OpenStreams, Bytes>, path: String) -> Result<usize, Failure> {
    let request = http::Request::get(format!("https://localhost/{path}")).body(())?;
    let mut stream = sender.send_request(request).await?;
    stream.finish().await?;
    let response = stream.recv_response().await?;
    if response.status() != 200 {
        return Err(format!("{path}: {}", response.status()).into());
    }
    let mut size = 0;
    while let Some(piece) = stream.recv_data().await? {
        size += piece.remaining();
    }
    Ok(size)
}

async fn expect(sender: SendRequest<OpenStreams, Bytes>, number: usize) -> Result<(), Failure> {
    let file = number % 100;
    let size = get(sender, format!("file{file}.txt?{number}")).await?;
    if size == 2000 * file { Ok(()) } else { Err(format!("file{file}: {size} bytes").into()) }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = env::args().collect();
    let server = SocketAddr::from(([127, 0, 0, 1], arguments[1].parse()?));
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&arguments[2])?)?;
    let mut tls = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let mut endpoint = quinn::Endpoint::client(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    endpoint.set_default_client_config(quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?)));
    let connection = endpoint.connect(server, "localhost")?.await?;
    let (mut driver, sender) = h3::client::new(h3_quinn::Connection::new(connection)).await?;
    let driving = tokio::spawn(async move { driver.wait_idle().await });
    let mut all = JoinSet::new();
    for number in 0..300 {
        all.spawn(expect(sender.clone(), number));
    }
    while let Some(outcome) = all.join_next().await {
        outcome??;
    }
    println!("{} bytes", get(sender.clone(), "large.bin".into()).await?);
    drop(sender);
    println!("{}", driving.await?);
    endpoint.wait_idle().await;
    Ok(())
}
