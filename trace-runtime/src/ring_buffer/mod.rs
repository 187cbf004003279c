//! The ring buffer: event records from any thread and any signal handler into shared memory, at about the price of the stamp.
//!
//! Usable without tracepoints through [`Channel`]; the sessions of the run time use [`Core`] and [`Appender`].
//!
//! # Principles
//!
//! The whole record is written inside one restartable sequence (rseq(2)) on the buffer of the present CPU, or of the thread, and
//! the last store of the sequence is the commit. A thread that is preempted, migrated or interrupted by a signal before that store starts again; so
//! there is no atomic read-modify-write, no reservation to be completed by somebody who may never run again, and nothing to repair
//! after a crash. What cannot be done that way (no rseq, aborted too often) goes to one [fallback region](FallbackRecord) with
//! another protocol; the two are never mixed in one buffer.
//!
//! # Drawing
//!
//! ```text
//! file    │ superblock │ buffer 0 │ buffer 1 │ … │ fallback region │
//!           geometry,
//!           caller's area
//!
//! buffer  │ control page │ consumed page │ descriptors (128 B each) │ sub-buffer 0 │ sub-buffer 1 │ … │
//!           commit word,   consumed,       number, begin, end,        opening word (8 B), then records only
//!           last stamp,    partly          records, losses
//!           counters
//!
//! commit word    63            44 43                                  0
//!                │ records (20) │ position (44): bytes, only grows      │   committed with the stamp by one 16-byte store
//!
//! sub-buffer k   k·S                          position                      (k+1)·S
//!                │ opening word │ record │ record │ not written yet … │
//! ```
//!
//! Positions count bytes modulo 2⁴⁴ and are compared by distance (`position.rs`, property-tested). Where the number of sub-buffers is
//! no power of two, closing the last one takes the position to the next power of two: a *lap*. A record never ends exactly at
//! a sub-buffer's end, and the opening word keeps the position of an open sub-buffer off its beginning; so a position *at* a
//! boundary always means: the one before is closed, the next is not open.
//!
//! # Placement
//!
//! | [`Placement`] | Index of the buffer | Buffers | Who writes to one | For |
//! | --- | --- | --- | --- | --- |
//! | `Cpu` | `cpu_id` of the rseq area | a CPU each | threads on that CPU | everything: any number of threads, the least waste |
//! | `MmCid` | `mm_cid` of the rseq area | a running thread each | threads with that concurrency ID | many CPUs and little memory |
//! | `Thread` | the thread's number (`sequence/thread_number.rs`) | a living thread each, while there are spare ones | that thread and its signal handlers | a thread's records in one order, with nobody else's between; a busy thread does not overwrite what a quiet one recorded |
//! | `Global` | – | none: the fallback region | all threads | one order of all records; rare events |
//!
//! By thread, the sequence is the same: what it excludes is a signal handler of the thread, which aborts it. A plain store in its
//! place would be interrupted by a handler that appends, and a reservation would have to be completed by somebody else when its
//! thread was killed. A thread takes a number with its first event, and a buffer of each channel that it records into:
//!
//! ```text
//! thread ── number, lowest that nobody has ──▶ table of the channel ──▶ spare buffer, or none: fallback region
//!           kept until the thread ends,         kept with the number,
//!           then another thread's               so the next thread goes on in it
//! ```
//!
//! Threads without a number (more than 4096 at once), without a spare buffer, or without rseq record into the fallback region,
//! and those that could have had a buffer are counted there as `diverted`; nothing is lost for that.
//!
//! # States of a sub-buffer
//!
//! | State | Position of the writer | Actor | Leaves by |
//! | --- | --- | --- | --- |
//! | free | before or at its beginning | writer, cold path | *open*: descriptor (number, begin, losses) and opening word, then commit of position + 8. Discard mode: only if `consumed` says that what lay there is consumed, else the event is discarded |
//! | open | inside | writer, fast path | *append*: header and pieces beyond the position, then commit of position, count + 1 and stamp |
//! | open | inside | reader | *cut*: delivers up to the position, any time; writes nothing |
//! | open | inside | writer, cold path | *close*, when a record does not fit: descriptor (end, content, records, losses), then commit of the boundary |
//! | closed | at its end or beyond | reader | *deliver*: what was not cut yet |
//! | delivered | beyond | reader | *consume*: moves `consumed`, after what it delivered is safe |
//! | overwritten | a ring further on | writer | overwrite mode: the open of the next lap, consumed or not |
//!
//! Each transition of the writer is a sequence of its own with the stamp taken inside, not below the last one.
//!
//! # Invariants
//!
//! - RB-1: The core whose addresses the writer uses outlives the append: the caller holds it, or is inside a read-side critical
//!   section after which it is dropped.
//! - RB-2 *exclusive*: A buffer is written by sequences only, of threads on its CPU (or with its concurrency ID, or of the one
//!   thread that has its number), which are compared inside the sequence. At most one thread is inside such a sequence and reaches
//!   its commit.
//! - RB-3 *whole*: The commit is the last store. x86-64 keeps stores in order, so whoever sees a position sees every byte before
//!   it. At every instruction the position covers whole records only.
//! - RB-4 *bounded*: A record has at most a quarter of a sub-buffer and 32 KiB, checked first; its pieces add up to the length
//!   that was checked; nothing is written beyond it and nothing read beyond a piece.
//! - RB-5 *room*: `(position − 1) mod S + 1 + length < S`, else the cold path closes and opens.
//! - RB-6 *descriptors*: What open writes is read only while the position is beyond the beginning, what close writes only when it
//!   is at the end or beyond. So a sequence that is aborted between its stores changed nothing that anybody reads, and its
//!   repetition stores the same again.
//! - RB-7 *quiet*: Bytes between `consumed` and the position are not written in discard mode. In overwrite mode a copy of
//!   sub-buffer k is valid if afterwards the position is less than a lap beyond its beginning.
//! - RB-8 *private*: Every address, mask and length that the writer uses comes from private memory. What is read from the mapping
//!   is compared or counted, never used as an address or length without a bound. A position is masked by the lap; behind the file,
//!   as much is mapped as a lap is longer than a ring.
//! - RB-9 *generation*: Every sequence compares the channel's generation, a word in a page that fork(2) wipes and that is never 0
//!   in its creator, with the caller's, which is never 0. A forked child cannot write its parent's rings.
//! - RB-10 *disarmed*: `rseq_cs` is cleared on every exit of a sequence (SYS-3 of [`trace_registry::sys`]).
//! - RB-11 *allocated*: A sub-buffer is opened only when the file has room for it, where it is written in place: a store finds no full
//!   file system (SIGBUS).
//!   Room is made in the first lap, in order, ahead of the writers.
//! - RB-12 *mapped*: Nobody makes the file shorter while it is mapped: a store would raise SIGBUS. Files without a name are sealed
//!   against it (F_SEAL_SHRINK). One with a name can be shortened by every process of its user, as such a process can be killed by
//!   them: who gives a channel such a file answers for it.
//!
//! # Guarantees
//!
//! - Progress: an append completes in a bounded number of steps, or after eight aborted sequences in the fallback region, which is
//!   lock-free. No other thread, reader or process can hold it up, wherever it stops or dies.
//! - Order: records of a buffer are in the order of their commits, their stamps do not decrease, and the record before, or the
//!   packet's begin, completes the short form of each stamp.
//! - Crash: the rings are a file. Whatever was committed before a SIGKILL is read back by [`Reader::open`].
//! - Nesting: a signal handler that appends while its thread is inside an append is recorded before it.
//! - Losses are counted exactly and by cause, below, and every packet carries the counts.
//!
//! # Every way to lose data
//!
//! | Cause | Counted as |
//! | --- | --- |
//! | discard mode, ring or fallback region full | `full` |
//! | overwrite mode, not consumed in time | `overwritten`: records committed, less records delivered |
//! | larger than a record may be | `too_large` |
//! | neither buffer nor fallback region; by thread, no spare buffer and no fallback region | `no_buffer` |
//! | nested too deeply, or the probe panicked (counted by the caller) | `nested`, `panicked` |
//! | fallback region: the thread died between reservation and commit, or slept for a whole lap | `uncommitted` |
//! | the machine stops: tmpfs is memory | – |
//! | the channel is disabled, or this is a forked child | not a loss: refused |
//!
//! A debugger's breakpoint *inside* a sequence moves the thread out of it without an abort, and may corrupt that buffer.
//!
//! # References
//!
//! Linux, `Documentation/userspace-api/rseq.rst`; librseq. M. Desnoyers, *Low-Impact Operating System Tracing* (2009), chapter 5,
//! for sub-buffers and their states. Intel SDM volume 3, 10.1.1, and AMD APM volume 2, 7.3.2: aligned 16-byte stores are atomic on
//! processors with AVX. On one that divides them, a cut may take its end stamp from the record before its last.

mod append;
mod channel;
mod claim;
mod config;
mod core;
mod fallback;
mod header;
mod layout;
mod losses;
mod position;
mod reader;
mod room;
mod sequence;

pub(crate) use self::append::Direct;
pub use self::append::Outcome;
pub use self::channel::{Channel, MOST_PIECES};
pub use self::claim::{Holder, STALE_NS};
pub use self::config::{ClockKind, Config, Geometry, HeaderKind, Mode, Placement};
pub use self::core::Core;
pub use self::fallback::{FALLBACK_HEADER, FallbackRecord};
pub use self::header::{Header, LONGEST_HEADER};
pub use self::layout::{CALLER_WORDS, MAGIC, SUPERBLOCK, Settings};
pub use self::losses::Losses;
pub use self::reader::{Moment, Packet, Positions, Purpose, Reader};
pub(crate) use self::room::AHEAD;
pub use self::sequence::Appender;
