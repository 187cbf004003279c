//! `ringtrace core`: the rings that a core dump holds.
//!
//! A process maps the rings and the journal of each session, so both are in its core dump where that has the memory of files,
//! core(5). The note `NT_FILE` says where a file is mapped; which of them are ours their content says, so memory files without a
//! name are found too. A session is rings and a journal with one UUID.
//!
//! A dump is untrusted: every size is checked against its length, and no more is copied than it has bytes.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use object::elf::{ET_CORE, FileHeader64, NT_FILE, PT_LOAD, PT_NOTE};
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{Endianness, ReadCache};
use rustix::fs::OFlags;
use trace_runtime::recovery::{Remains, RingsCopy};
use trace_runtime::{journal, ring_buffer};

use super::recover::show;
use super::text;
use crate::Outcome;
use crate::common::Common;
use crate::failure::{self, Failure};

/// Builds traces from what the rings held that are in a core dump.
///
/// Each is a trace of its own; what the process had delivered before lies in the trace that it wrote. The dump has the rings
/// where /proc/PID/coredump_filter includes file-backed shared memory (0x8); `ringtrace doctor` says so.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A dump that systemd keeps is a file after `coredumpctl dump PID -o FILE`; gdb's `gcore PID` makes one of a process \
                  that goes on."
)]
pub(crate) struct Arguments {
    /// The core dump.
    file: PathBuf,

    /// Build the trace in this new directory. With several sessions, each has a directory in it. Without it,
    /// SESSION-PID.ringtrace here.
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, common: &Common) -> Result<Outcome, Failure> {
    let Arguments { file, output } = arguments;
    if let Some(taken) = output.as_deref().filter(|path| path.read_dir().is_ok_and(|mut entries| entries.next().is_some())) {
        return Err(Failure::Wrong(format!("{}: it exists already and is not empty", taken.display())));
    }
    let beside = output.as_deref().and_then(Path::parent).filter(|path| path.is_dir()).unwrap_or(Path::new("."));
    let sessions = Dump::open(file)?.sessions(beside)?;
    let several = sessions.len() > 1;
    let mut out = text::out(common.json);
    for remains in sessions {
        let output = match output {
            Some(output) if several => Some(output.join(remains.name().unwrap_or_default())),
            output => output.clone(),
        };
        if let Some(output) = &output {
            std::fs::create_dir_all(output).map_err(|error| Failure::file(output, error))?;
        }
        let written = remains.output();
        let recovered = remains.recover(output.as_deref()).map_err(|error| Failure::Runtime(Box::new(error)))?;
        show(file, &recovered, common, &mut out)?;
        if let Some(written) = written.filter(|_| !common.json) {
            failure::note(format_args!("what had been delivered before is in {}", written.display()));
        }
    }
    out.flush()?;
    Ok(Outcome::Complete)
}

/// A core dump of a 64-bit process.
struct Dump {
    file: File,
    path: PathBuf,
    len: u64,
    /// By address.
    segments: Vec<Segment>,
    mapped: Vec<Mapped>,
    /// Whether the file ends before its memory does.
    is_cut: bool,
}

/// Memory that the dump has.
struct Segment {
    address: u64,
    size: u64,
    /// Where it lies in the dump.
    offset: u64,
}

/// A file that was mapped from its beginning on, in one piece.
struct Mapped {
    name: PathBuf,
    begin: u64,
    end: u64,
}

/// Most bytes of all notes, and of all journals. The kernel makes `NT_FILE` of at most 4 MiB.
const MOST_NOTES: u64 = 64 << 20;
/// Most segments; a process may have 65 530 mappings unless it was given more.
const MOST_SEGMENTS: u32 = 1 << 20;
/// Most sessions of a dump.
const MOST_SESSIONS: usize = 256;

impl Dump {
    fn open(path: &Path) -> Result<Dump, Failure> {
        let failed = |error: io::Error| Failure::file(path, error);
        let wrong = |problem: &str| Failure::Wrong(format!("{}: {problem}", path.display()));
        let malformed = |error: object::Error| wrong(&format!("it is no core dump, or a damaged one: {error}"));
        // O_NONBLOCK: a FIFO would be waited for.
        let file = File::options().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path).map_err(failed)?;
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(wrong("it is no file"));
        }
        let len = file.metadata().map_err(failed)?.len();
        let cache = ReadCache::new(&file);
        let header = FileHeader64::<Endianness>::parse(&cache).map_err(malformed)?;
        let endian = header.endian().map_err(malformed)?;
        if header.e_type(endian) != ET_CORE {
            return Err(wrong("it is no core dump, but a program or a library"));
        }
        if header.phnum(endian, &cache).map_err(malformed)? > MOST_SEGMENTS {
            return Err(wrong("it is no core dump, or a damaged one: it claims to have more than a million segments"));
        }
        let mut dump = Dump {
            file: file.try_clone().map_err(failed)?,
            path: path.to_owned(),
            len,
            segments: Vec::new(),
            mapped: Vec::new(),
            is_cut: false,
        };
        let mut notes_left = MOST_NOTES;
        for segment in header.program_headers(endian, &cache).map_err(malformed)? {
            let (offset, size) = (segment.p_offset(endian), segment.p_filesz(endian).min(segment.p_memsz(endian)));
            match segment.p_type(endian) {
                PT_LOAD => {
                    let present = size.min(len.saturating_sub(offset));
                    dump.is_cut |= present < size;
                    let address = segment.p_vaddr(endian);
                    dump.segments.push(Segment { address, size: present.min(u64::MAX - address), offset });
                }
                PT_NOTE => {
                    notes_left =
                        notes_left.checked_sub(segment.p_filesz(endian)).ok_or_else(|| wrong("its notes are too large"))?;
                    let mut notes = segment.notes(endian, &cache).map_err(malformed)?;
                    while let Some(note) = notes.as_mut().map(|notes| notes.next()).transpose().map_err(malformed)?.flatten() {
                        if note.n_type(endian) == NT_FILE && note.name() == b"CORE" {
                            dump.mapped = files(note.desc()).ok_or_else(|| wrong("its list of mapped files is damaged"))?;
                        }
                    }
                }
                _ => {}
            }
        }
        dump.segments.sort_by_key(|segment| segment.address);
        Ok(dump)
    }

    /// What there is of each session. Copies of the rings are made in `beside`.
    fn sessions(&self, beside: &Path) -> Result<Vec<Remains>, Failure> {
        let wrong = |problem: String| Failure::Wrong(format!("{}: {problem}", self.path.display()));
        let (mut rings, mut journals, mut lacking) = (Vec::new(), Vec::new(), None);
        for mapped in &self.mapped {
            let beginning = self.first_word(mapped);
            if beginning == Some(ring_buffer::MAGIC) {
                rings.push(mapped);
            } else if beginning.is_some_and(|word| word.to_le_bytes()[..4] == journal::MAGIC) {
                journals.push(mapped);
            } else if beginning.is_none() && mapped.name.ends_with("rings") {
                lacking.get_or_insert(&mapped.name);
            }
        }
        if rings.len().max(journals.len()) > MOST_SESSIONS {
            return Err(wrong(format!("it has the rings of more than {MOST_SESSIONS} sessions")));
        }
        let (mut left, mut journals_left) = (self.len, self.len.min(MOST_NOTES));
        let mut contents = Vec::new();
        for journal in journals {
            let mut bytes = Vec::new();
            self.copy(journal.begin, journal.end - journal.begin, &mut journals_left, &mut bytes)?;
            contents.push(bytes);
        }
        let (mut found, has_rings) = (Vec::new(), !rings.is_empty());
        for mapped in rings {
            let mut copy = RingsCopy::create(beside).map_err(|error| Failure::file(beside, error))?;
            self.copy(mapped.begin, mapped.end - mapped.begin, &mut left, &mut copy)?;
            // A session that only a trigger follows has no journal here.
            let remains = Remains::of_copies(copy, &contents);
            found.extend(remains.map_err(|error| wrong(format!("{}: {error}", mapped.name.display())))?);
        }
        match (found.is_empty(), lacking) {
            (false, _) => Ok(found),
            (true, Some(name)) => Err(wrong(format!(
                "the rings {} were mapped, but their memory is not in this dump{}\n  before the next one: echo 0x3b > \
                 /proc/PID/coredump_filter, or in the shell that starts the program: echo 0x3b > /proc/self/coredump_filter\n  \
                 what a process that has ended left is also there without a dump: ringtrace ps --dead",
                name.display(),
                if self.is_cut { ", which is cut off: ulimit -c unlimited, and room for it" } else { "" },
            ))),
            (true, None) if self.is_cut => {
                Err(wrong("it is cut off, and has no rings; ulimit -c unlimited, and room for it".to_owned()))
            }
            (true, None) if has_rings => {
                Err(wrong("it has rings, but not their journal: its process only consumed them".to_owned()))
            }
            (true, None) => Err(wrong("its process had no session that recorded".to_owned())),
        }
    }

    fn first_word(&self, mapped: &Mapped) -> Option<u64> {
        let segment = self.segment_at(mapped.begin).filter(|s| mapped.begin - s.address + 8 <= s.size)?;
        let mut word = [0; 8];
        self.file.read_exact_at(&mut word, segment.offset + (mapped.begin - segment.address)).ok()?;
        Some(u64::from_le_bytes(word))
    }

    /// The segment that has the byte at an address.
    fn segment_at(&self, address: u64) -> Option<&Segment> {
        let behind = self.segments.partition_point(|segment| segment.address <= address);
        self.segments[..behind].last().filter(|segment| address - segment.address < segment.size)
    }

    /// Copies memory out of the dump; of all that is copied, at most `left` bytes.
    fn copy(&self, begin: u64, size: u64, left: &mut u64, to: &mut impl io::Write) -> Result<(), Failure> {
        let wrong = |problem: &str| Failure::Wrong(format!("{}: {problem}", self.path.display()));
        *left =
            left.checked_sub(size).ok_or_else(|| wrong("its mapped files are larger than it is: it is cut off or damaged"))?;
        let (mut at, end) = (begin, begin + size);
        while at < end {
            let segment = self.segment_at(at).ok_or_else(|| {
                wrong("it has only a part of the rings: it is cut off or damaged; ulimit -c unlimited, and room for it")
            })?;
            let count = (segment.address + segment.size).min(end) - at;
            let failed = |error| Failure::file(&self.path, error);
            let mut file = &self.file;
            file.seek(SeekFrom::Start(segment.offset + (at - segment.address))).map_err(failed)?;
            let copied = io::copy(&mut file.take(count), to).map_err(failed)?;
            if copied < count {
                return Err(wrong("it became shorter while it was read"));
            }
            at += count;
        }
        Ok(())
    }
}

/// The files of a note `NT_FILE`: the number of entries and the size of a page; for each, where it begins and ends, and its offset
/// in pages; then their names, each with a zero behind it. `None`: it is no such note.
fn files(note: &[u8]) -> Option<Vec<Mapped>> {
    let word = |at: usize| Some(u64::from_le_bytes(note.get(at..at.checked_add(8)?)?.try_into().ok()?));
    let (count, page) = (usize::try_from(word(0)?).ok()?, word(8)?);
    let names = note.get(count.checked_mul(24)?.checked_add(16)?..)?;
    let mut found: Vec<Mapped> = Vec::new();
    // Whether the last one found goes up to the entry before.
    let mut goes_on = false;
    for (entry, name) in (0..count).zip(names.split(|byte| *byte == 0)) {
        let (begin, end, offset) = (word(16 + entry * 24)?, word(24 + entry * 24)?, word(32 + entry * 24)?.checked_mul(page)?);
        if begin >= end {
            return None;
        }
        let name: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(name);
        match found.last_mut().filter(|last| goes_on && last.end == begin && last.name == name && offset == begin - last.begin) {
            // Parts of it have other access.
            Some(last) => last.end = end,
            None => {
                goes_on = offset == 0;
                if goes_on {
                    found.push(Mapped { name: name.into(), begin, end });
                }
            }
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn note(entries: &[(u64, u64, u64, &str)]) -> Vec<u8> {
        let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let mut bytes = words(&[entries.len() as u64, 4096]);
        entries.iter().for_each(|(begin, end, page, _)| bytes.extend(words(&[*begin, *end, *page])));
        entries.iter().for_each(|(.., name)| bytes.extend([name.as_bytes(), &[0]].concat()));
        bytes
    }

    #[test]
    fn parts_of_a_mapping_are_put_together() {
        let bytes = note(&[
            (0x1000, 0x2000, 0, "/a/rings"),
            (0x2000, 0x4000, 1, "/a/rings"),
            (0x4000, 0x5000, 7, "/a/rings"),
            (0x5000, 0x6000, 0, "/memfd:ringtrace (deleted)"),
            (0x6000, 0x7000, 0, "/memfd:ringtrace (deleted)"),
            (0x7000, 0x8000, 3, "/lib.so"),
            (0x8000, 0x9000, 4, "/lib.so"),
        ]);
        let found: Vec<(u64, u64)> = files(&bytes).expect("a note").iter().map(|f| (f.begin, f.end)).collect();
        assert_eq!(found, [(0x1000, 0x4000), (0x5000, 0x6000), (0x6000, 0x7000)]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_note_or_none(
            entries in proptest::collection::vec((0_u64..99, 0_u64..99, 0_u64..9), 0..9), at: usize, byte: u8, cut: usize,
        ) {
            let entries: Vec<_> = entries.into_iter().map(|(begin, end, page)| (begin, end, page, "name")).collect();
            let mut bytes = note(&entries);
            let len = bytes.len();
            bytes[at % len] = byte;
            bytes.truncate(cut % (2 * len));
            let _ = files(&bytes);
        }
    }
}
