//! One program writes into ring buffers; another maps them and copies what they hold straight to a file, while the first goes on,
//! and after it was killed.
//!
//! `cargo run --example ring_copy`

use ringtrace::ring_buffer::{Channel, ClockKind, Config, Geometry, HeaderKind, Mode, Outcome, Placement, Purpose, Reader};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;

/// What finds no room is discarded and counted; in overwrite mode, the copies that a reader gets are those that it has checked.
struct Log;

impl Config for Log {
    const MODE: Mode = Mode::Discard;
    const CLOCK: ClockKind = ClockKind::Os;
    const HEADER: HeaderKind = HeaderKind::Compact;
    const PLACEMENT: Placement = Placement::Cpu;
}

/// The program that writes: events whose payload is their number, until it is killed.
fn write(path: &Path) -> io::Result<()> {
    let cpus = std::thread::available_parallelism()?.get() as u32;
    let geometry = Geometry { buffers: cpus, sub_buffer: 64 << 10, sub_buffers: 16, fallback: 64 << 10 };
    let file = File::options().read(true).write(true).open(path)?;
    // SAFETY: a file of these two processes, of which neither makes it shorter.
    #[expect(unsafe_code, reason = "maps a file that another program reads")]
    let channel = unsafe { Channel::<Log>::in_file(file, geometry)? };
    for number in 0_u64.. {
        while channel.record(1, &[&number.to_le_bytes()]) == Outcome::Full {
            std::thread::yield_now();
        }
    }
    Ok(())
}

/// Copies what is committed, whole sub-buffers and parts of them. Returns the number of records.
fn copy(reader: &mut Reader, to: &mut impl Write) -> io::Result<u64> {
    let mut records = 0;
    for buffer in 0..reader.geometry().buffers {
        while let Some(packet) = reader.next(buffer, true) {
            // What a reader of the copy needs to know of each piece, and then the bytes as they lie in the ring.
            let head = [u64::from(packet.cpu), packet.begin_ns, packet.losses.total(), packet.len() as u64];
            to.write_all(&head.map(u64::to_le_bytes).concat())?;
            // SAFETY: the writer keeps to the protocol, and no other reader consumes.
            #[expect(unsafe_code, reason = "bytes of shared memory")]
            to.write_all(unsafe { packet.as_slice() })?;
            records += u64::from(packet.records);
            // Only now may the writer use this memory again: until then a crash of this program loses nothing.
            reader.consume(packet);
        }
    }
    while let Some(record) = reader.next_fallback(false) {
        to.write_all(record.payload)?;
        records += 1;
    }
    reader.consume_fallback();
    Ok(records)
}

fn main() -> io::Result<()> {
    if let Some(path) = std::env::args_os().nth(1) {
        return write(Path::new(&path));
    }
    let ring = Path::new("example.ring");
    File::create(ring)?;
    let mut writer = Command::new(std::env::current_exe()?).arg(ring).spawn()?;
    let mut copied = File::create("example.copy")?;

    let file = File::options().read(true).write(true).open(ring)?;
    let mut reader = loop {
        // SAFETY: nobody makes the file shorter, and no other reader consumes.
        #[expect(unsafe_code, reason = "maps a file that another program writes")]
        match unsafe { Reader::open(&file, Purpose::Consume) } {
            Ok(reader) => break reader,
            Err(_) if writer.try_wait()?.is_none() => std::thread::yield_now(), // not made yet
            Err(error) => return Err(error),
        }
    };
    let mut records = 0;
    while records < 1_000_000 {
        records += copy(&mut reader, &mut copied)?;
    }
    println!("{records} records while the program ran");
    for (buffer, positions) in (0..reader.geometry().buffers).filter_map(|b| Some((b, reader.positions(b)?))) {
        println!("buffer {buffer}: {} bytes produced, {} consumed", positions.produced, positions.consumed);
    }

    writer.kill()?;
    writer.wait()?;
    let rest = copy(&mut reader, &mut copied)?;
    let losses =
        (0..reader.geometry().buffers).map(|b| reader.buffer_losses(b)).fold(reader.fallback_losses(), |a, b| a.plus(&b));
    println!("{rest} more after it was killed; {losses} where it found no room; {} bytes copied", copied.metadata()?.len());
    std::fs::remove_file(ring)
}
