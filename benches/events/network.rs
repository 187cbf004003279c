//! A network load over the loopback, client and server in this process, as tbench makes it: what recording always costs there.
//!
//! One connection; a request of 64 bytes, a reply of 4 KiB. Both ends are on one CPU, so that the process's CPU time is all there
//! is, and no wake-up crosses CPUs. Each end records what it sends and what it receives: four events with two numbers for each
//! request. The ways to record are measured in turns, and compared with the turns just before and behind them.

use super::{Options, show};
use ringtrace::Session;
use ringtrace::clock::Clock;
use ringtrace::ring_buffer::{Appender, Channel, ClockKind, Config, Geometry, HeaderKind, Mode, Placement};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};

/// One end sends a message.
#[ringtrace::tracepoint(record)]
fn network_sent(request: u64, bytes: u64);

/// One end has received a message.
#[ringtrace::tracepoint(record)]
fn network_received(request: u64, bytes: u64);

struct Flight;

impl Config for Flight {
    const MODE: Mode = Mode::Overwrite;
    const CLOCK: ClockKind = ClockKind::Raw;
    const HEADER: HeaderKind = HeaderKind::Compact;
    const PLACEMENT: Placement = Placement::Cpu;
}

const REQUEST: usize = 64;
const REPLY: usize = 4096;
const ROUND: u64 = 400;
const ROUNDS: usize = 301;

/// Ways to record.
const OFF: u8 = 0;
const WORDS: u8 = 1;
const CALLED: u8 = 2;
const PIECES: u8 = 3;
const EVENT: u8 = 4;
const NAMES: [&str; 5] =
    ["network/off", "network/append_inlined", "network/append_out_of_line", "network/append_pieces", "network/event"];

fn words(appender: &Appender, id: u64, bytes: u64) {
    // SAFETY: the channel was made with `Flight`, and outlives both ends.
    #[expect(unsafe_code, reason = "the configuration is named again")]
    let outcome = unsafe { appender.append_words::<Flight>([id, bytes, 0]) };
    _ = std::hint::black_box(outcome);
}

/// The same behind a call.
#[inline(never)]
fn called(appender: &Appender, id: u64, bytes: u64) {
    words(appender, id, bytes);
}

/// By the general form: an appender made for each event, and a list of pieces.
#[inline(never)]
fn pieces(channel: &Channel<Flight>, id: u64, bytes: u64) {
    _ = std::hint::black_box(channel.record(1, &[&id.to_ne_bytes(), &bytes.to_ne_bytes()]));
}

fn sent<const WAY: u8>(channel: &Channel<Flight>, appender: &Appender, id: u64, bytes: u64) {
    match WAY {
        WORDS => words(appender, id, bytes),
        CALLED => called(appender, id, bytes),
        PIECES => pieces(channel, id, bytes),
        EVENT => network_sent(id, bytes),
        _ => {}
    }
}

fn received<const WAY: u8>(channel: &Channel<Flight>, appender: &Appender, id: u64, bytes: u64) {
    match WAY {
        WORDS => words(appender, id, bytes),
        CALLED => called(appender, id, bytes),
        PIECES => pieces(channel, id, bytes),
        EVENT => network_received(id, bytes),
        _ => {}
    }
}

/// Answers requests; the first byte of each says how it is recorded. 0xff ends it.
fn serve(mut stream: TcpStream, channel: &Channel<Flight>, appender: &Appender) -> io::Result<()> {
    fn one<const WAY: u8>(
        stream: &mut TcpStream,
        request: &[u8],
        channel: &Channel<Flight>,
        appender: &Appender,
    ) -> io::Result<()> {
        let id = request[8..16].try_into().map(u64::from_le_bytes).unwrap_or_default();
        received::<WAY>(channel, appender, id, REQUEST as u64);
        stream.write_all(&[request[1]; REPLY])?;
        sent::<WAY>(channel, appender, id, REPLY as u64);
        Ok(())
    }
    let mut request = [0; REQUEST];
    loop {
        stream.read_exact(&mut request)?;
        match request[0] {
            OFF => one::<OFF>(&mut stream, &request, channel, appender)?,
            WORDS => one::<WORDS>(&mut stream, &request, channel, appender)?,
            CALLED => one::<CALLED>(&mut stream, &request, channel, appender)?,
            PIECES => one::<PIECES>(&mut stream, &request, channel, appender)?,
            EVENT => one::<EVENT>(&mut stream, &request, channel, appender)?,
            _ => return Ok(()),
        }
    }
}

/// Makes requests. Returns the CPU time of both ends for each, in ns.
fn ask<const WAY: u8>(stream: &mut TcpStream, channel: &Channel<Flight>, appender: &Appender) -> io::Result<f64> {
    let (mut request, mut reply) = ([WAY; REQUEST], [0; REPLY]);
    let begin = super::consumer::process_cpu_ns();
    for id in 0..ROUND {
        request[8..16].copy_from_slice(&id.to_le_bytes());
        stream.write_all(&request)?;
        sent::<WAY>(channel, appender, id, REQUEST as u64);
        stream.read_exact(&mut reply)?;
        received::<WAY>(channel, appender, id, REPLY as u64);
    }
    Ok((super::consumer::process_cpu_ns() - begin) / ROUND as f64)
}

pub(crate) fn run(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    if !Clock::process().is_counter() || !NAMES.iter().any(|name| options.takes(name)) {
        return Ok(());
    }
    // A thread of its own, so that the others of this program may run where they want.
    std::thread::scope(|scope| scope.spawn(|| measure(options).map_err(|e| e.to_string())).join())
        .map_err(|_| "the client panicked")?
        .map_err(Into::into)
}

fn measure(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    super::pin();
    let directory = tempfile::tempdir()?;
    let session = Session::builder("network").enable("*::network_*").overwrite().memory(16 << 20);
    let session = session.output(directory.path().join("t")).start()?;
    let geometry =
        Geometry { buffers: super::appends::possible_cpus(), sub_buffer: 64 << 10, sub_buffers: 16, fallback: 64 << 10 };
    let channel = Channel::<Flight>::in_memory(geometry)?;
    channel.core().populate(16);
    let appender = &channel.core().appender(channel.core().generation(), 1, false, 16);
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut stream = TcpStream::connect(listener.local_addr()?)?;
    let (server, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (channel, rounds) = (&channel, options.rounds(ROUNDS));
    let mut ns: [Vec<f64>; 5] = Default::default();
    std::thread::scope(|scope| {
        let server = scope.spawn(|| serve(server, channel, appender));
        let mut client = || {
            for round in 0..=rounds {
                let one = [
                    ask::<OFF>(&mut stream, channel, appender)?,
                    ask::<WORDS>(&mut stream, channel, appender)?,
                    ask::<CALLED>(&mut stream, channel, appender)?,
                    ask::<PIECES>(&mut stream, channel, appender)?,
                    ask::<EVENT>(&mut stream, channel, appender)?,
                ];
                // The first is not counted.
                ns.iter_mut().zip(one).filter(|_| round > 0).for_each(|(all, one)| all.push(one));
            }
            Ok::<_, io::Error>(())
        };
        let measured = client();
        stream.write_all(&[0xff; REQUEST])?;
        let served = server.join().map_err(|_| io::Error::other("the server panicked"))?;
        measured.and(served)
    })?;
    let expected = (rounds as u64 + 1) * ROUND * 4;
    let (events, appended) = (session.statistics().events, channel.core().records());
    if events != expected || appended != 3 * expected {
        return Err(format!("{events} of {expected} events arrived, and {appended} of {} appends", 3 * expected).into());
    }
    // Of neighbours: what drifts meets both.
    let percent = |way: usize| {
        let mut ratios: Vec<f64> = (0..rounds - 1).map(|r| ns[way][r] / ((ns[0][r] + ns[0][r + 1]) / 2.0)).collect();
        ratios.sort_by(f64::total_cmp);
        (ratios[ratios.len() / 2] - 1.0) * 100.0
    };
    for (way, name) in NAMES.iter().enumerate().filter(|(_, name)| options.takes(name)) {
        let mut sorted = ns[way].clone();
        sorted.sort_by(f64::total_cmp);
        show(options, name, 2, &[("ns", sorted[sorted.len() / 2]), ("percent_more", if way == 0 { 0.0 } else { percent(way) })]);
    }
    Ok(())
}
