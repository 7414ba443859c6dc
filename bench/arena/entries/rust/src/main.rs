//! The arena's application with axum. Variables tell it where to listen and what to serve; bench/arena/doors.py has them.

mod items;
mod store;

use axum::body::{Body, Bytes};
use axum::extract::ws::{Message, WebSocketUpgrade};
use axum::extract::{Path, Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post, put};
use axum::{Json, Router};
use futures_util::StreamExt;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use items::{Item, Listed, Priced};
use serde::Deserialize;
use std::env;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::TlsAcceptor;
use tower_http::compression::CompressionLayer;
use tower_http::services::ServeDir;

pub struct App {
    things: Vec<Item>,
    store: Option<store::Store>,
}

type Shared = State<Arc<App>>;

#[derive(Deserialize)]
struct Numbers {
    a: i64,
    b: i64,
}

fn text(content: impl Into<Body>) -> Response {
    ([(CONTENT_TYPE, "text/plain")], content.into()).into_response()
}

async fn sum(Query(numbers): Query<Numbers>, body: Bytes) -> Response {
    let more: i64 = std::str::from_utf8(&body).ok().and_then(|found| found.trim().parse().ok()).unwrap_or(0);
    text((numbers.a + numbers.b + more).to_string())
}

async fn pipeline() -> Response {
    text("ok")
}

async fn upload(body: Body) -> Response {
    let mut pieces = body.into_data_stream();
    let mut size = 0;
    while let Some(Ok(piece)) = pieces.next().await {
        size += piece.len();
    }
    text(size.to_string())
}

#[derive(Deserialize)]
struct Factor {
    m: Option<i32>,
}

async fn things(State(app): Shared, Path(count): Path<usize>, Query(query): Query<Factor>) -> Response {
    let factor = query.m.unwrap_or(1);
    let found = app.things.iter().take(count).map(|item| Priced::new(item, factor)).collect();
    Json(Listed::new(found)).into_response()
}

async fn socket(upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(|mut socket| async move {
        while let Some(Ok(message)) = socket.recv().await {
            let is_content = matches!(message, Message::Text(_) | Message::Binary(_));
            if is_content && socket.send(message).await.is_err() {
                return;
            }
        }
    })
}

fn routes(app: App, directory: &str) -> Router {
    let compressed = CompressionLayer::new().gzip(true).br(true);
    let files = ServeDir::new(format!("{directory}/static")).precompressed_br().precompressed_gzip();
    Router::new()
        .route("/baseline11", any(sum))
        .route("/baseline2", get(sum))
        .route("/pipeline", get(pipeline))
        .route("/json/{count}", get(things).layer(compressed))
        .route("/upload", post(upload))
        .route("/ws", any(socket))
        .route("/async-db", get(store::search))
        .route("/crud/items", get(store::page).post(store::create))
        .route("/crud/items/{id}", put(store::update).get(store::read))
        .nest_service("/static", files)
        .fallback(|| async { StatusCode::NOT_FOUND })
        .with_state(Arc::new(app))
}

fn variable(name: &str, otherwise: &str) -> String {
    env::var(name).unwrap_or_else(|_| otherwise.to_string())
}

/// What a connection speaks.
#[derive(Clone, Copy)]
enum Speaks {
    Http1,
    Http2,
}

async fn serve<C: AsyncRead + AsyncWrite + Unpin + Send + 'static>(connection: C, router: Router, speaks: Speaks) {
    let service = TowerToHyperService::new(router);
    let io = TokioIo::new(connection);
    // An error is a client that went away.
    let _ = match speaks {
        Speaks::Http1 => http1::Builder::new().pipeline_flush(true).serve_connection(io, service).with_upgrades().await,
        Speaks::Http2 => http2::Builder::new(TokioExecutor::new()).serve_connection(io, service).await,
    };
}

fn acceptor(protocols: &[&[u8]]) -> TlsAcceptor {
    let certificate = CertificateDer::pem_file_iter(variable("ARENA_CERTIFICATE", "/certs/server.crt"))
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(variable("ARENA_KEY", "/certs/server.key")).expect("a key");
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(certificate, key)
        .expect("a certificate that fits its key");
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}

async fn secured(connection: TcpStream, acceptor: TlsAcceptor, router: Router) {
    let Ok(connection) = acceptor.accept(connection).await else { return };
    let speaks = if connection.get_ref().1.alpn_protocol() == Some(b"h2") { Speaks::Http2 } else { Speaks::Http1 };
    serve(connection, router, speaks).await;
}

/// Gives each connection of a port to a task.
async fn listen<F: std::future::Future<Output = ()> + Send + 'static>(door: &str, otherwise: &str, run: impl Fn(TcpStream) -> F) {
    let address = format!("{}:{}", variable("ARENA_HOST", "0.0.0.0"), variable(door, otherwise));
    let listener = TcpListener::bind(&address).await.unwrap_or_else(|error| panic!("{address}: {error}"));
    loop {
        if let Ok((connection, _)) = listener.accept().await {
            let _ = connection.set_nodelay(true);
            tokio::spawn(run(connection));
        }
    }
}

async fn run() {
    let directory = variable("ARENA_DATA", "/data");
    let content = std::fs::read(format!("{directory}/dataset.json")).expect("a data set");
    let things = serde_json::from_slice(&content).expect("a data set of JSON");
    let store = env::var("DATABASE_URL")
        .ok()
        .map(|url| store::Store::new(&url, variable("DATABASE_MAX_CONN", "32").parse().expect("a number of connections")));
    let router = routes(App { things, store }, &directory);
    let (http1, http2) = (acceptor(&[b"http/1.1"]), acceptor(&[b"h2", b"http/1.1"]));
    tokio::join!(
        listen("ARENA_HTTP_PORT", "8080", |connection| serve(connection, router.clone(), Speaks::Http1)),
        listen("ARENA_H2C_PORT", "8082", |connection| serve(connection, router.clone(), Speaks::Http2)),
        listen("ARENA_TLS_PORT", "8081", |connection| secured(connection, http1.clone(), router.clone())),
        listen("ARENA_H2_PORT", "8443", |connection| secured(connection, http2.clone(), router.clone())),
    );
}

fn main() {
    let cores = variable("ARENA_CORES", "1").parse().expect("a number of cores");
    let runtime = if cores == 1 {
        tokio::runtime::Builder::new_current_thread().enable_all().build()
    } else {
        tokio::runtime::Builder::new_multi_thread().worker_threads(cores).enable_all().build()
    };
    runtime.expect("a run-time system").block_on(run());
}
