//! Images of the process, found by the notes of their ELF files.
//!
//! # References
//!
//! elf(5), dl_iterate_phdr(3).
#![expect(unsafe_code, reason = "reads the notes of loaded files")]

use crate::image::{self, CONTAINS_PANICS, IMAGE, Image, LAYOUT, NOTE_KIND, NOTE_NAME};
use core::ffi::{c_int, c_void};
use core::ops::ControlFlow;

core::arch::global_asm!(
    ".pushsection .note.ringtrace, \"a\", @note",
    ".balign 4",
    concat!(".globl \"ringtrace_note_", env!("CARGO_PKG_VERSION"), "\""),
    concat!(".hidden \"ringtrace_note_", env!("CARGO_PKG_VERSION"), "\""),
    concat!("\"ringtrace_note_", env!("CARGO_PKG_VERSION"), "\":"),
    ".long 10, 77f - 66f, {kind}",
    ".asciz \"Ringtrace\"",
    ".balign 4",
    // From here to the image's own description; and what `Build` has.
    "66: .quad {image} - 66b",
    ".quad {layout}",
    ".quad {contains_panics}",
    // To the first declaration of a module, and behind the last, as if both stood here.
    ".quad __start_linkme_RINGTRACE_MODULES_0_1_0 - 66b",
    ".quad __stop_linkme_RINGTRACE_MODULES_0_1_0 - 66b",
    concat!(".asciz \"", env!("CARGO_PKG_VERSION"), "\""),
    concat!(".asciz \"", env!("RINGTRACE_COMPILER"), "\""),
    "77: .balign 4",
    ".popsection",
    kind = const NOTE_KIND,
    image = sym IMAGE,
    layout = const LAYOUT,
    contains_panics = const CONTAINS_PANICS as u64,
);

unsafe extern "C" {
    #[link_name = concat!("ringtrace_note_", env!("CARGO_PKG_VERSION"))]
    static NOTE: u8;
}

/// Keeps the note: the linker takes what somebody names.
#[used]
static KEEP: &u8 = {
    // SAFETY: an address.
    unsafe { &NOTE }
};

/// An image, and where it lies.
#[derive(Clone, Copy)]
pub struct Found {
    /// The image.
    pub image: &'static Image,
    /// What was added to the addresses in its file: `l_addr` of its link map.
    pub base: usize,
    /// The first address behind its segments.
    pub end: usize,
}

/// Hands each image of the process that has a note of this form to `each`, the program first, until that breaks off.
///
/// The images that are described stay loaded while this runs, and no longer by its doing.
///
/// # Safety
///
/// What `each` keeps of an image is not used once that is unloaded.
pub unsafe fn images(each: &mut dyn FnMut(Found) -> ControlFlow<()>) {
    type Each<'e> = &'e mut dyn FnMut(Found) -> ControlFlow<()>;
    unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, each: *mut c_void) -> c_int {
        // SAFETY: the loader passes a description of a loaded object, and what it was given.
        let (info, each) = unsafe { (&*info, &mut *each.cast::<Each<'_>>()) };
        // SAFETY: as many headers as it says.
        let headers = unsafe { core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
        let base = info.dlpi_addr as usize;
        let end = headers.iter().filter(|h| h.p_type == libc::PT_LOAD).map(|h| base + (h.p_vaddr + h.p_memsz) as usize).max();
        for header in headers.iter().filter(|h| h.p_type == libc::PT_NOTE) {
            let start = (base + header.p_vaddr as usize) as *const u8;
            // SAFETY: a segment of the object, which is mapped.
            let notes = unsafe { core::slice::from_raw_parts(start, header.p_memsz as usize) };
            if let Some(image) = find(notes) {
                let found = Found { image, base, end: end.unwrap_or(base) };
                return each(found).is_break().into();
            }
        }
        0
    }
    let mut each: Each<'_> = each;
    // SAFETY: `visit` gets a pointer to `each`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut each).cast()) };
}

/// Looks for our note among those of a segment.
fn find(notes: &[u8]) -> Option<&'static Image> {
    let word = |at: usize| Some(u32::from_ne_bytes(notes.get(at..at + 4)?.try_into().ok()?));
    let mut at = 0;
    while let (Some(name), Some(description), Some(kind)) = (word(at), word(at + 4), word(at + 8)) {
        let content = at + 12 + (name as usize).next_multiple_of(4);
        let is_ours =
            || notes.get(at + 12..).is_some_and(|name| name.starts_with(NOTE_NAME) && name.get(NOTE_NAME.len()) == Some(&0));
        if kind == NOTE_KIND && is_ours() {
            let offset = i64::from_ne_bytes(notes.get(content..content + 8)?.try_into().ok()?);
            let image = notes.as_ptr().wrapping_add(content).wrapping_offset(offset as isize).cast::<Image>();
            // SAFETY: the note is ours, so the image lies there, as long as the object is loaded. Its first fields are read the
            // same in all forms of this kind (IM-1).
            return Some(unsafe { &*image });
        }
        at = content + (description as usize).next_multiple_of(4);
    }
    None
}

#[used]
// SAFETY: `.init_array` holds functions of this type, which the loader calls once, when all images that it finds are relocated.
#[unsafe(link_section = ".init_array")]
static REGISTER: extern "C" fn() = {
    extern "C" fn register() {
        image::register(|each| {
            // SAFETY: of what is kept, the run time of an image that loaded this one, or is the program, stays as long as this.
            unsafe {
                images(&mut |found| if each(found.image) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) });
            }
        });
    }
    register
};

#[used]
// SAFETY: as above, when the image is unloaded and when the process ends.
#[unsafe(link_section = ".fini_array")]
static UNREGISTER: extern "C" fn() = {
    extern "C" fn unregister() {
        image::unregister();
    }
    unregister
};
