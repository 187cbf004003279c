//! A TCP server that answers requests, and now and then takes its time: a program to look for a stall in.
//!
//! ```text
//! cargo run --release --example server        in one terminal; Enter ends it
//! ```
//!
//! Clients of its own send requests over connections on the local machine. Every two seconds, the request under way finds the
//! store locked for 60 ms by somebody who compacts it. docs/triggers.md finds that.

use ringtrace::tracepoint;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A request came in.
#[tracepoint(record)]
fn received(id: u64);

/// Its answer goes out.
#[tracepoint(record)]
fn answered(id: u64);

/// The store is compacted: nobody else can use it.
#[tracepoint(record)]
fn compacting(pages: u32);

const CLIENTS: u64 = 2;
/// Between two of a client's requests.
const PAUSE: Duration = Duration::from_micros(500);
const COMPACT_EVERY: Duration = Duration::from_secs(2);
const COMPACTION: Duration = Duration::from_millis(60);

static STORE: Mutex<u64> = Mutex::new(0);
static NEXT_ID: AtomicU64 = AtomicU64::new(1);
static IS_OVER: AtomicBool = AtomicBool::new(false);

fn main() -> io::Result<()> {
    ringtrace::init();
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    println!("serving on {address} as process {}", std::process::id());
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(move || TcpStream::connect(address).and_then(ask));
            let (connection, _) = listener.accept()?;
            scope.spawn(move || serve(&connection));
        }
        scope.spawn(compact);
        // The end of the input, or a line.
        let _ = io::stdin().read(&mut [0]);
        IS_OVER.store(true, Ordering::Relaxed);
        Ok(())
    })
}

/// Answers the requests of one connection, a line each.
fn serve(mut connection: &TcpStream) -> io::Result<()> {
    for line in BufReader::new(connection).lines() {
        let id: u64 = line?.parse().unwrap_or_default();
        received(id);
        let answer = {
            let mut store = STORE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            *store += id;
            *store
        };
        connection.write_all(format!("{answer}\n").as_bytes())?;
        answered(id);
    }
    Ok(())
}

/// Sends one request after the other.
fn ask(connection: TcpStream) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let mut answers = BufReader::new(connection.try_clone()?).lines();
    while !IS_OVER.load(Ordering::Relaxed) {
        (&connection).write_all(format!("{}\n", NEXT_ID.fetch_add(1, Ordering::Relaxed)).as_bytes())?;
        let Some(_) = answers.next().transpose()? else { break };
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Locks the store now and then.
fn compact() {
    let mut next = Instant::now() + COMPACT_EVERY;
    while !IS_OVER.load(Ordering::Relaxed) {
        if Instant::now() >= next {
            next += COMPACT_EVERY;
            let store = STORE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            compacting(17);
            std::thread::sleep(COMPACTION);
            drop(store);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
