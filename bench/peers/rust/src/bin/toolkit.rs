//! The tokio side of the workloads of files. Prints the seconds and the processor time that the work took.
//! Usage: tokio-toolkit CORES read|direct FILE READERS READS. bench/millrace/app/Toolkit.hs describes the workloads.

use millrace_bench_peers::{argument, runtime};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::Arc;
use std::time::Instant;
use tokio::task::{spawn_blocking, JoinHandle};

const BLOCK_BYTES: usize = 4096;

/// Aligned as O_DIRECT wants it.
#[repr(align(4096))]
struct Block([u8; BLOCK_BYTES]);

async fn read(file: Arc<File>, blocks: u64, reader: usize, reads: usize) -> std::io::Result<()> {
    let mut block = Box::new(Block([0; BLOCK_BYTES]));
    let mut state = (reader as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for _ in 0..reads {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let offset = (state >> 11) % blocks * BLOCK_BYTES as u64;
        let file = file.clone();
        block = spawn_blocking(move || file.read_exact_at(&mut block.0, offset).map(|()| block)).await??;
    }
    Ok(())
}

async fn work(file: Arc<File>, readers: usize, reads: usize) -> std::io::Result<()> {
    let blocks = file.metadata()?.len() / BLOCK_BYTES as u64;
    let handles: Vec<JoinHandle<_>> =
        (0..readers).map(|reader| tokio::spawn(read(file.clone(), blocks, reader, reads))).collect();
    for handle in handles {
        handle.await??;
    }
    Ok(())
}

fn processor_seconds() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

fn main() -> std::io::Result<()> {
    let mut words = std::env::args().skip(2);
    let (name, path) = words.next().zip(words.next()).expect("the arguments are: CORES read|direct FILE READERS READS");
    let flags = match name.as_str() {
        "read" => 0,
        "direct" => libc::O_DIRECT,
        _ => panic!("unknown work: {name}"),
    };
    let file = Arc::new(OpenOptions::new().read(true).custom_flags(flags).open(path)?);
    let runtime = runtime(argument(1))?;
    let (before, begin) = (processor_seconds(), Instant::now());
    runtime.block_on(async { tokio::spawn(work(file, argument(4), argument(5))).await })??;
    println!("{:.6} {:.6}", begin.elapsed().as_secs_f64(), processor_seconds() - before);
    Ok(())
}
