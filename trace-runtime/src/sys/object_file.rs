//! What can be told of a shared object before the dynamic linker has it, which trusts what it reads: a table that lies elsewhere than
//! its header says ends the program, and constructors run before anybody could look at what they are of.
//!
//! # References
//!
//! elf(5), System V ABI: "Dynamic Linking".

use object::elf::{self, DynamicTag, FileHeader64, ProgramHeader64, SectionHeader64};
use object::read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _, Rela as _, SectionHeader as _, Sym as _};
use object::{Endianness, Pod, ReadCache, ReadRef as _, U32};
use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use trace_registry::image::{Build, NOTE_KIND, NOTE_NAME};

type Header = FileHeader64<Endianness>;
type Segment = ProgramHeader64<Endianness>;

const IS_BUILT_AS: &str = "a probe module is what cargo builds of a `cdylib`: lib….so";

/// Looks at a file that is to be loaded. Returns what made it; `None`: it has nothing of ringtrace in it.
///
/// # Errors
///
/// It is no shared object for this machine, or a damaged one.
pub(crate) fn check(path: &Path) -> Result<Option<Build>, String> {
    let unread = |e: std::io::Error| format!("it cannot be read: {e}");
    // Before it is opened: that waits for the other end of a pipe.
    let metadata = path.metadata().map_err(unread)?;
    if !metadata.is_file() {
        let what = if metadata.is_dir() { "a directory" } else { "no regular file" };
        return Err(format!("it is {what}; {IS_BUILT_AS}"));
    }
    let size = metadata.len();
    let file = File::open(path).map_err(unread)?;
    let file = ReadCache::new(file);
    machine(file.read_bytes_at(0, 20).unwrap_or_default())?;
    examine(&file, size).map_err(|what| format!("it is damaged: {what}; build it again, or copy it again"))
}

/// Whether a file begins as a shared object for this machine does.
fn machine(bytes: &[u8]) -> Result<(), String> {
    let no_object = |what: &str| Err(format!("{what}; {IS_BUILT_AS}"));
    let Some(&[0x7f, b'E', b'L', b'F', class, order, .., type_0, type_1, machine_0, machine_1]) = bytes.first_chunk::<20>()
    else {
        return no_object("it is no shared object (no ELF file)");
    };
    let (kind, machine) = (u16::from_ne_bytes([type_0, type_1]), u16::from_ne_bytes([machine_0, machine_1]));
    let ours = match std::env::consts::ARCH {
        "x86_64" => elf::EM_X86_64.0,
        "aarch64" => elf::EM_AARCH64.0,
        _ => machine,
    };
    let order_here = if cfg!(target_endian = "little") { elf::ELFDATA2LSB } else { elf::ELFDATA2MSB };
    if class != elf::ELFCLASS64.0 || order != order_here.0 || machine != ours {
        let theirs = match elf::Machine(machine) {
            elf::EM_386 => "x86".to_owned(),
            elf::EM_ARM => "arm".to_owned(),
            elf::EM_X86_64 => "x86_64".to_owned(),
            elf::EM_AARCH64 => "aarch64".to_owned(),
            elf::EM_RISCV => "riscv".to_owned(),
            _ => format!("ELF machine {machine}"),
        };
        let ours = std::env::consts::ARCH;
        return Err(format!(
            "it is for another machine ({theirs}), and the program runs on {ours}; build it for the program's target"
        ));
    }
    if kind != elf::ET_DYN.0 {
        return no_object("it is no shared object (an object file, or a program at a fixed address)");
    }
    Ok(())
}

type Damaged = &'static str;

/// Checks what the dynamic linker relies on.
fn examine(file: &ReadCache<File>, size: u64) -> Result<Option<Build>, Damaged> {
    let header = Header::parse(file).map_err(|_| CUT)?;
    let endian = header.endian().map_err(|_| "its header is wrong")?;
    let segments = header.program_headers(endian, file).map_err(|_| CUT)?;
    let mut image = Image { file: &[], endian, loads: Vec::new() };
    for segment in segments.iter().filter(|s| s.p_type(endian) == elf::PT_LOAD) {
        let (offset, in_file) = segment.file_range(endian);
        if offset.checked_add(in_file).is_none_or(|end| end > size) {
            return Err(CUT);
        }
        let (begin, align) = (segment.p_vaddr(endian), segment.p_align(endian).max(1));
        let end = begin.checked_add(segment.p_memsz(endian)).filter(|end| *end <= MOST);
        let after = image.loads.last().map_or(0, |last| last.p_vaddr(endian) + last.p_memsz(endian));
        let is_sound = align.is_power_of_two() && begin % align == offset % align && begin >= after;
        if !is_sound || end.is_none() || in_file > segment.p_memsz(endian) {
            return Err("its segments overlap, or are not where they can be mapped");
        }
        image.loads.push(*segment);
    }
    // What is loaded; names for debuggers lie behind it, and may be many times as much.
    let end = image.loads.iter().map(|s| s.p_offset(endian) + s.p_filesz(endian)).max().unwrap_or(0);
    image.file = file.read_bytes_at(0, end).map_err(|()| CUT)?;
    for segment in segments {
        let size = match segment.p_type(endian) {
            elf::PT_DYNAMIC | elf::PT_NOTE | elf::PT_PHDR => segment.p_memsz(endian),
            // What has no bytes in the file has none in a segment.
            elf::PT_TLS => segment.p_filesz(endian),
            // It may end with the page, behind its segment.
            elf::PT_GNU_RELRO => segment.p_memsz(endian).saturating_sub(LARGEST_PAGE - 1),
            _ => continue,
        };
        if !image.has(segment.p_vaddr(endian), size, elf::ProgramFlags(0)) {
            return Err("a part of it lies outside of its segments");
        }
    }
    let dynamic = segments.iter().find(|s| s.p_type(endian) == elf::PT_DYNAMIC).ok_or("it has no dynamic section")?;
    let sections = header.section_headers(endian, file).map_err(|_| CUT)?;
    image.dynamic(dynamic, sections)?;
    Ok(segments.iter().filter_map(|s| image.build(s)).next())
}

const CUT: Damaged = "it ends before its contents do";
const LARGEST_PAGE: u64 = 64 << 10;
/// Addresses are below: those of a user's half of memory.
const MOST: u64 = 1 << 46;

/// The file as it will lie in memory, from address 0.
struct Image<'f> {
    file: &'f [u8],
    endian: Endianness,
    loads: Vec<Segment>,
}

impl<'f> Image<'f> {
    /// Whether so many bytes from an address are in one segment, which has these flags.
    fn has(&self, address: u64, size: u64, flags: elf::ProgramFlags) -> bool {
        self.loads.iter().any(|s| {
            let begin = s.p_vaddr(self.endian);
            let end = address.checked_add(size).is_some_and(|end| end <= begin + s.p_memsz(self.endian));
            address >= begin && end && s.p_flags(self.endian).contains(flags)
        })
    }

    /// So many elements from an address, as they are in the file.
    fn table<T: Pod>(&self, address: u64, count: u64) -> Result<&'f [T], Damaged> {
        let outside = "a table of its dynamic section lies outside of its segments";
        let size = count.checked_mul(size_of::<T>() as u64).ok_or(outside)?;
        let offset = self.loads.iter().find_map(|s| {
            let at = address.checked_sub(s.p_vaddr(self.endian))?;
            at.checked_add(size).filter(|end| *end <= s.p_filesz(self.endian))?;
            Some(s.p_offset(self.endian) + at)
        });
        self.file.read_slice_at(offset.ok_or(outside)?, count as usize).map_err(|()| CUT)
    }

    fn dynamic(&self, segment: &Segment, sections: &[SectionHeader64<Endianness>]) -> Result<(), Damaged> {
        let count = segment.p_filesz(self.endian) / size_of::<elf::Dyn64<Endianness>>() as u64;
        let entries = self.table::<elf::Dyn64<Endianness>>(segment.p_vaddr(self.endian), count)?;
        let mut known = HashMap::new();
        let mut strings = Vec::new();
        let end = entries.iter().position(|e| e.tag(self.endian) == elf::DT_NULL).ok_or("its dynamic section does not end")?;
        for entry in &entries[..end] {
            if entry.is_string(self.endian) {
                strings.push(entry.val(self.endian));
            }
            known.insert(entry.tag(self.endian).0, entry.val(self.endian));
        }
        let value = |tag: DynamicTag| known.get(&tag.0).copied();
        for section in sections.iter().filter(|s| s.sh_flags(self.endian).contains(elf::SHF_ALLOC)) {
            self.agrees(section, &value)?;
        }
        let text = value(elf::DT_STRTAB).zip(value(elf::DT_STRSZ)).ok_or("it has no table of names")?;
        let names = self.table::<u8>(text.0, text.1)?;
        // What ends with a zero ends all names in it.
        let is_name = |at: u64| at < names.len() as u64 && names.last() == Some(&0);
        if !strings.into_iter().all(is_name) {
            return Err("a name lies outside of its table");
        }
        let is_wrong = |table, tag, is: u64| value(table).is_some() && value(tag) != Some(is);
        if is_wrong(elf::DT_RELA, elf::DT_RELAENT, 24)
            || is_wrong(elf::DT_SYMTAB, elf::DT_SYMENT, 24)
            || is_wrong(elf::DT_JMPREL, elf::DT_PLTREL, elf::DT_RELA.0 as u64)
        {
            return Err("its tables have entries of another size");
        }
        let symbols = value(elf::DT_SYMTAB).ok_or("it has no table of symbols")?;
        let symbol = |number: u64| -> Result<(), Damaged> {
            let symbol = self.table::<elf::Sym64<Endianness>>(symbols.saturating_add(number.saturating_mul(24)), 1)?;
            let is_known = symbol.iter().all(|s| is_name(s.st_name(self.endian).into()));
            if is_known { Ok(()) } else { Err("a symbol's name lies outside of its table") }
        };
        if let Some(table) = value(elf::DT_GNU_HASH) {
            self.hashes(table, &symbol)?;
        }
        // Constructors and destructors: the functions themselves, and tables of what relocations put there.
        let mut functions = Vec::new();
        for (table, size) in [(elf::DT_INIT_ARRAY, elf::DT_INIT_ARRAYSZ), (elf::DT_FINI_ARRAY, elf::DT_FINI_ARRAYSZ)] {
            if let Some(table) = value(table) {
                let size = value(size).unwrap_or(0);
                self.table::<u8>(table, size)?;
                functions.push(table..table + size);
            }
        }
        if !value(elf::DT_INIT).into_iter().chain(value(elf::DT_FINI)).all(|at| self.has(at, 1, elf::PF_X)) {
            return Err("its constructor or destructor is no code");
        }
        if value(elf::DT_PLTGOT).is_some_and(|at| !self.has(at, 24, elf::PF_W)) {
            return Err("a table of its dynamic section lies outside of its segments");
        }
        if let Some(table) = value(elf::DT_RELR) {
            self.table::<u8>(table, value(elf::DT_RELRSZ).unwrap_or(0))?;
        }
        for table in [elf::DT_VERSYM, elf::DT_VERNEED, elf::DT_VERDEF, elf::DT_HASH].into_iter().filter_map(value) {
            self.table::<u8>(table, 4)?;
        }
        for (table, size) in [(elf::DT_RELA, elf::DT_RELASZ), (elf::DT_JMPREL, elf::DT_PLTRELSZ)] {
            let Some(table) = value(table) else { continue };
            let relocations = self.table::<elf::Rela64<Endianness>>(table, value(size).unwrap_or(0) / 24)?;
            // So many of the first ones only move an address, which is taken for granted.
            let moved = value(elf::DT_RELACOUNT).filter(|_| size == elf::DT_RELASZ).unwrap_or(0);
            let kind = |r: &elf::Rela64<Endianness>| r.r_info.get(self.endian);
            if relocations.iter().take(moved as usize).any(|r| kind(r) != kind(&relocations[0])) {
                return Err("its relocations are not in order");
            }
            for relocation in relocations {
                let at = relocation.r_offset(self.endian);
                if !self.has(at, 8, elf::PF_W) {
                    return Err("a relocation lies outside of its data");
                }
                let number = relocation.r_sym(self.endian, false);
                if number != 0 {
                    symbol(number.into())?;
                } else if functions.iter().any(|f| f.contains(&at))
                    && !self.has(relocation.r_addend(self.endian) as u64, 1, elf::PF_X)
                {
                    return Err("its constructor or destructor is no code");
                }
            }
        }
        Ok(())
    }

    /// Checks that a section, which the dynamic linker does not look at, says what segments and dynamic section say.
    fn agrees(&self, section: &SectionHeader64<Endianness>, value: &dyn Fn(DynamicTag) -> Option<u64>) -> Result<(), Damaged> {
        let (at, size) = (section.sh_addr(self.endian), section.sh_size(self.endian));
        let kind = section.sh_type(self.endian);
        let is_there = |s: &Segment| {
            let offset = section.sh_offset(self.endian).checked_sub(s.p_offset(self.endian));
            offset
                .is_some_and(|offset| s.p_vaddr(self.endian).checked_add(offset) == Some(at) && offset <= s.p_filesz(self.endian))
        };
        let has = |tag, is| value(tag) == Some(is);
        let agrees = match kind {
            elf::SHT_NOBITS => true,
            elf::SHT_DYNSYM => has(elf::DT_SYMTAB, at),
            elf::SHT_STRTAB => has(elf::DT_STRTAB, at) && has(elf::DT_STRSZ, size),
            elf::SHT_GNU_HASH => has(elf::DT_GNU_HASH, at),
            elf::SHT_GNU_VERSYM => has(elf::DT_VERSYM, at),
            elf::SHT_GNU_VERNEED => has(elf::DT_VERNEED, at) && has(elf::DT_VERNEEDNUM, section.sh_info(self.endian).into()),
            elf::SHT_INIT_ARRAY => has(elf::DT_INIT_ARRAY, at) && has(elf::DT_INIT_ARRAYSZ, size),
            elf::SHT_FINI_ARRAY => has(elf::DT_FINI_ARRAY, at) && has(elf::DT_FINI_ARRAYSZ, size),
            elf::SHT_RELA => {
                let is = |table, bytes| has(table, at) && has(bytes, size);
                is(elf::DT_RELA, elf::DT_RELASZ) || is(elf::DT_JMPREL, elf::DT_PLTRELSZ)
            }
            _ => true,
        };
        if agrees && (kind == elf::SHT_NOBITS || self.loads.iter().any(is_there)) {
            return Ok(());
        }
        Err("its sections are not where its segments and its dynamic section say")
    }

    /// Checks the table by which symbols are found.
    fn hashes(&self, table: u64, symbol: &dyn Fn(u64) -> Result<(), Damaged>) -> Result<(), Damaged> {
        let words = |at: u64, count: u64| self.table::<U32<Endianness>>(at, count);
        let header = words(table, 4)?;
        let [buckets, base, filters, _] = [0, 1, 2, 3].map(|i| u64::from(header[i].get(self.endian)));
        if buckets == 0 || !filters.is_power_of_two() {
            return Err("its table of hashes is wrong");
        }
        let at = table + 16 + 8 * filters;
        let (chains, buckets) = (at + 4 * buckets, words(at, buckets)?);
        for first in buckets.iter().map(|bucket| u64::from(bucket.get(self.endian))).filter(|first| *first != 0) {
            let mut number = first;
            loop {
                let place = number.checked_sub(base).ok_or("its table of hashes is wrong")?;
                let hash = words(chains + 4 * place, 1)?;
                symbol(number)?;
                number += 1;
                if hash[0].get(self.endian) & 1 != 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// What our note in a segment of notes says.
    fn build(&self, segment: &Segment) -> Option<Build> {
        let mut notes = segment.notes(self.endian, self.file).ok().flatten()?;
        while let Ok(Some(note)) = notes.next() {
            if note.n_type(self.endian).0 == NOTE_KIND && note.name() == NOTE_NAME {
                return Build::of_note(note.desc());
            }
        }
        None
    }
}
