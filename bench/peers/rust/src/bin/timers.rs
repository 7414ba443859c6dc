//! The tokio side of the timer workloads. Prints the seconds that the work took.
//! Usage: tokio-timers CORES sleepers N, tokio-timers CORES timeouts TASKS CALLS.
//! bench/millrace/app/Timers.hs describes the workloads. tokio has no callbacks without tasks.

use millrace_bench_peers::{argument, runtime};
use std::future::Future;
use std::time::{Duration, Instant};
use tokio::task::{yield_now, JoinHandle};
use tokio::time::{sleep, timeout};

async fn tasks<F: Future<Output = ()> + Send + 'static>(n: usize, body: impl Fn() -> F) {
    let handles: Vec<JoinHandle<()>> = (0..n).map(|_| tokio::spawn(body())).collect();
    for handle in handles {
        handle.await.expect("task");
    }
}

async fn work(name: &str) {
    match name {
        "sleepers" => tasks(argument(3), || sleep(Duration::from_millis(1))).await,
        "timeouts" => {
            let calls = argument(4);
            tasks(argument(3), || async move {
                for _ in 0..calls {
                    let _ = timeout(Duration::from_secs(10), yield_now()).await;
                }
            })
            .await
        }
        _ => panic!("unknown work: {name}"),
    }
}

fn main() -> std::io::Result<()> {
    let name = std::env::args().nth(2).expect("the second argument must be the work: sleepers or timeouts");
    let runtime = runtime(argument(1))?;
    let begin = Instant::now();
    runtime.block_on(async move { tokio::spawn(async move { work(&name).await }).await })?;
    println!("{:.6}", begin.elapsed().as_secs_f64());
    Ok(())
}
