//! The arena's gRPC service with tonic. Variables tell it where to listen; bench/arena/doors.py has them. What tonic's generator
//! would write is written by hand here, so that no compiler of protobuf is needed.

use futures_util::future::{try_join, BoxFuture};
use futures_util::{stream, FutureExt};
use std::convert::Infallible;
use std::env;
use std::task::{Context, Poll};
use tonic::body::Body;
use tonic::server::{Grpc, NamedService};
use tonic::transport::{Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use tower::{service_fn, Service};

#[derive(Clone, PartialEq, prost::Message)]
struct SumRequest {
    #[prost(int32, tag = "1")]
    a: i32,
    #[prost(int32, tag = "2")]
    b: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct StreamRequest {
    #[prost(int32, tag = "1")]
    a: i32,
    #[prost(int32, tag = "2")]
    b: i32,
    #[prost(int32, tag = "3")]
    count: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct SumReply {
    #[prost(int32, tag = "1")]
    result: i32,
}

async fn get_sum(request: Request<SumRequest>) -> Result<Response<SumReply>, Status> {
    let SumRequest { a, b } = request.into_inner();
    Ok(Response::new(SumReply { result: a + b }))
}

/// The replies of a stream, counting up.
struct Replies(std::ops::Range<i32>);

impl Iterator for Replies {
    type Item = Result<SumReply, Status>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|result| Ok(SumReply { result }))
    }
}

async fn stream_sum(request: Request<StreamRequest>) -> Result<Response<stream::Iter<Replies>>, Status> {
    let StreamRequest { a, b, count } = request.into_inner();
    Ok(Response::new(stream::iter(Replies(a + b..a + b + count.max(1)))))
}

#[derive(Clone)]
struct Calls;

impl NamedService for Calls {
    const NAME: &'static str = "benchmark.BenchmarkService";
}

impl Service<http::Request<Body>> for Calls {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        async move {
            Ok(match request.uri().path() {
                "/benchmark.BenchmarkService/GetSum" => {
                    Grpc::new(ProstCodec::<SumReply, SumRequest>::default()).unary(service_fn(get_sum), request).await
                }
                "/benchmark.BenchmarkService/StreamSum" => {
                    let mut calls = Grpc::new(ProstCodec::<SumReply, StreamRequest>::default());
                    calls.server_streaming(service_fn(stream_sum), request).await
                }
                _ => Status::unimplemented("there is no such method").into_http(),
            })
        }
        .boxed()
    }
}

fn variable(name: &str, otherwise: &str) -> String {
    env::var(name).unwrap_or_else(|_| otherwise.to_string())
}

fn address(port: &str, otherwise: &str) -> std::net::SocketAddr {
    format!("{}:{}", variable("ARENA_HOST", "0.0.0.0"), variable(port, otherwise)).parse().expect("an address")
}

fn security() -> ServerTlsConfig {
    let [certificate, key] = [("ARENA_CERTIFICATE", "/certs/server.crt"), ("ARENA_KEY", "/certs/server.key")]
        .map(|(name, otherwise)| std::fs::read(variable(name, otherwise)).expect("a certificate and its key"));
    ServerTlsConfig::new().identity(Identity::from_pem(certificate, key))
}

async fn serve() -> Result<(), tonic::transport::Error> {
    let plain = Server::builder().add_service(Calls).serve(address("ARENA_HTTP_PORT", "8080"));
    let secured = Server::builder().tls_config(security())?.add_service(Calls).serve(address("ARENA_H2_PORT", "8443"));
    try_join(plain, secured).await.map(|_| ())
}

fn main() {
    let cores = variable("ARENA_CORES", "1").parse().expect("a number of cores");
    let runtime = if cores == 1 {
        tokio::runtime::Builder::new_current_thread().enable_all().build()
    } else {
        tokio::runtime::Builder::new_multi_thread().worker_threads(cores).enable_all().build()
    };
    runtime.expect("a run-time system").block_on(serve()).expect("a server");
}
