//! Answers whatever it reads with 500 bytes, with a tokio task per connection. Usage: tokio-tcp500 PORT CORES.

use millrace_bench_peers::{argument, listen, runtime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn serve(mut stream: TcpStream, answer: &'static [u8]) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = [0; 2048];
    while stream.read(&mut buffer).await? > 0 {
        stream.write_all(answer).await?;
    }
    Ok(())
}

fn main() -> std::io::Result<()> {
    let mut answer = b"HTTP/1.1 200 OK\r\nContent-Length: 460\r\n\r\n".to_vec();
    answer.resize(500, b'x');
    let answer: &'static [u8] = answer.leak();
    runtime(argument(2))?.block_on(async {
        let listener = listen(argument(1) as u16)?;
        // The accept loop is a task too, so that it runs on a worker of the scheduler.
        tokio::spawn(async move {
            loop {
                if let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(serve(stream, answer));
                }
            }
        })
        .await?
    })
}
