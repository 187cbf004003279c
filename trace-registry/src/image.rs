//! Images: the program and the shared objects that it loads, each of which has a registry of its own.
//!
//! Every image into which this crate is linked carries an [`Image`], which a note of the ELF file leads to ([`sys::images`]), and a
//! constructor that looks for the first image with a run time, the *owner*. What else is loaded is registered with the owner
//! when it is loaded, and unregistered when it is unloaded, by a destructor. Probe modules ([`ModuleInfo`]) are not: they
//! wait to be examined and attached on request.
//!
//! # Invariants
//!
//! - IM-1: Nothing behind [`Image::version`], [`Image::compiler`] and [`Image::layout`] is looked at unless those are this image's own:
//!   then the same compiler made the same structures of it.
//! - IM-2: An image uses the read side of the owner from before the first list is published to one of its gates.
//!
//! [`sys::images`]: crate::sys::images
#![expect(unsafe_code, reason = "images refer to each other by address")]

use crate::abi::{SEED, hash};
use crate::closure::{self, RINGTRACE_RUNTIMES_0_1_0, Runtime};
use crate::condition::Conditional;
use crate::event::EventClass;
use crate::field::{FieldClass, FieldDescriptor};
use crate::probe::{Entry, ProbeDescriptor, Target};
use crate::read_side::{self, State};
use crate::registry;
use crate::state_dump::{self, StateDump, StateDumpDescriptor};
use crate::sync::{AtomicBool, Ordering};
use crate::sys::{self, ThreadBlock};
use crate::tracepoint::TracepointDescriptor;
use alloc::borrow::ToOwned as _;
use alloc::string::String;
use alloc::vec::Vec;

/// What `probe_module!` declares.
#[derive(Clone, Copy, Debug)]
pub struct ModuleInfo {
    /// Name of the module.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
}

/// The declaration of the module, if this image is one.
#[linkme::distributed_slice]
pub static RINGTRACE_MODULES_0_1_0: [ModuleInfo];

/// A text that images of any version read alike.
#[repr(C)]
pub struct Text {
    start: *const u8,
    length: usize,
}

impl Text {
    const fn new(text: &'static str) -> Text {
        Text { start: text.as_ptr(), length: text.len() }
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        // SAFETY: made from a text of the image that this is in.
        unsafe { core::str::from_utf8_unchecked(core::slice::from_raw_parts(self.start, self.length)) }
    }
}

/// Type of the note that leads to an [`Image`]. Another form of it has another number.
pub const NOTE_KIND: u32 = 3;
/// Its name.
pub const NOTE_NAME: &[u8] = b"Ringtrace";

/// What made an image, as the note in its file says it before it is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Build {
    /// As [`Image::version`].
    pub version: String,
    /// As [`Image::compiler`].
    pub compiler: String,
    /// As [`Image::layout`].
    pub layout: u64,
    /// Whether panics of probes are contained.
    pub contains_panics: bool,
    /// Whether it declares that it is a probe module.
    pub is_module: bool,
}

impl Build {
    /// This image's.
    pub fn own() -> Build {
        Build {
            version: IMAGE.version.as_str().to_owned(),
            compiler: IMAGE.compiler.as_str().to_owned(),
            layout: IMAGE.layout,
            contains_panics: CONTAINS_PANICS,
            is_module: !RINGTRACE_MODULES_0_1_0.is_empty(),
        }
    }

    /// From the description of a note. `None`: it is not whole.
    pub fn of_note(description: &[u8]) -> Option<Build> {
        let number = |at: usize| Some(u64::from_ne_bytes(description.get(at..at + 8)?.try_into().ok()?));
        // From the one place to the other lie as many declarations as there are.
        let is_module = number(24)? != number(32)?;
        let mut texts = description.get(40..)?.split(|byte| *byte == 0);
        let mut text = || core::str::from_utf8(texts.next()?).ok().map(str::to_owned);
        Some(Build { version: text()?, compiler: text()?, layout: number(8)?, contains_panics: number(16)? != 0, is_module })
    }
}

/// Whether panics of probes are contained here.
pub(crate) const CONTAINS_PANICS: bool = cfg!(feature = "std");

/// What an image has.
#[repr(C)]
pub struct Image {
    /// Version of ringtrace.
    pub version: Text,
    /// Version of the compiler.
    pub compiler: Text,
    /// Hash of the layouts of what images hand each other.
    pub layout: u64,
    contents: fn() -> Contents,
    state: &'static State,
    set_runtime: fn(&'static Runtime),
    is_registered: AtomicBool,
}

// SAFETY: texts are not changed.
unsafe impl Sync for Image {}

/// What an image declares.
#[derive(Clone, Copy)]
pub struct Contents {
    /// Its tracepoints.
    pub tracepoints: &'static [TracepointDescriptor],
    /// Hands over its probes. Nothing that one image allocates may be freed by another.
    each_probe: fn(&mut dyn FnMut(&'static ProbeDescriptor)),
    /// What it says of itself, if it is a probe module.
    pub module: Option<ModuleInfo>,
    /// Its run time, if it has one.
    pub runtime: Option<&'static Runtime>,
    /// Returns how many of its probes became known since it was loaded: those of sites that were hit for the first time, where the
    /// linker does not collect them.
    pub hits: fn() -> usize,
    /// Its state dumps.
    pub state_dumps: &'static [StateDumpDescriptor],
    /// Runs one of them. Returns false if it panicked: a panic stays in the image that it began in.
    pub run_state_dump: fn(&StateDumpDescriptor, &StateDump<'_>) -> bool,
}

impl Contents {
    /// Returns its probes.
    pub fn probes(&self) -> Vec<&'static ProbeDescriptor> {
        let mut probes = Vec::new();
        (self.each_probe)(&mut |probe| probes.push(probe));
        probes
    }
}

pub(crate) const LAYOUT: u64 = hash(
    SEED,
    "image 7",
    &[
        size_of::<Image>() as u64,
        size_of::<Contents>() as u64,
        size_of::<TracepointDescriptor>() as u64,
        size_of::<ProbeDescriptor>() as u64,
        size_of::<EventClass>() as u64,
        size_of::<FieldDescriptor>() as u64,
        size_of::<FieldClass>() as u64,
        size_of::<Entry>() as u64,
        size_of::<Target>() as u64,
        size_of::<Conditional>() as u64,
        size_of::<State>() as u64,
        size_of::<ThreadBlock>() as u64,
        size_of::<Runtime>() as u64,
        size_of::<StateDumpDescriptor>() as u64,
        core::mem::offset_of!(TracepointDescriptor, gate) as u64,
        core::mem::offset_of!(ProbeDescriptor, function) as u64,
        cfg!(ringtrace_off) as u64,
        cfg!(ringtrace_portable) as u64,
        cfg!(ringtrace_mutate) as u64,
    ],
);

/// This image.
pub static IMAGE: Image = Image {
    version: Text::new(env!("CARGO_PKG_VERSION")),
    compiler: Text::new(env!("RINGTRACE_COMPILER")),
    layout: LAYOUT,
    contents: || Contents {
        tracepoints: registry::tracepoints(),
        each_probe: |each| registry::probes().for_each(each),
        module: RINGTRACE_MODULES_0_1_0.first().copied(),
        runtime: RINGTRACE_RUNTIMES_0_1_0.first(),
        hits: sys::hits,
        state_dumps: registry::state_dumps(),
        run_state_dump: state_dump::run,
    },
    state: &read_side::STATE,
    set_runtime: closure::set_runtime,
    is_registered: AtomicBool::new(false),
};

impl Image {
    /// Whether this image and the calling one were made alike (IM-1).
    pub fn is_alike(&self) -> bool {
        self.version.as_str() == IMAGE.version.as_str()
            && self.compiler.as_str() == IMAGE.compiler.as_str()
            && self.layout == IMAGE.layout
    }

    /// Returns what it declares; `None` where that could not be understood.
    pub fn contents(&self) -> Option<Contents> {
        self.is_alike().then(|| (self.contents)())
    }

    /// Makes it use the read side and the run time of the calling image (IM-2).
    ///
    /// # Safety
    ///
    /// The image is loaded, and the calling one, which stays loaded as long, is the only one whose run time publishes lists to its
    /// gates.
    pub unsafe fn adopt(&self) {
        if self.is_alike() && !core::ptr::eq(self, &raw const IMAGE) {
            self.state.adopt(&read_side::STATE);
            if let Some(runtime) = RINGTRACE_RUNTIMES_0_1_0.first() {
                (self.set_runtime)(runtime);
            }
        }
    }
}

/// Registers this image with the owner. Called by the image's constructor.
#[cfg_attr(not(all(target_os = "linux", target_pointer_width = "64")), expect(dead_code, reason = "there are no constructors"))]
pub(crate) fn register(images: impl FnOnce(&mut dyn FnMut(&'static Image) -> bool)) {
    if !RINGTRACE_MODULES_0_1_0.is_empty() {
        return; // attached on request
    }
    let mut owner = None;
    images(&mut |image| {
        owner = image.contents().and_then(|c| c.runtime);
        owner.is_none()
    });
    if let Some(owner) = owner.filter(|owner| !RINGTRACE_RUNTIMES_0_1_0.first().is_some_and(|own| core::ptr::eq(*owner, own))) {
        IMAGE.is_registered.store(true, Ordering::Relaxed);
        closure::set_runtime(owner);
        (owner.register)(&IMAGE);
    }
}

/// Unregisters this image. Called by its destructor.
#[cfg_attr(not(all(target_os = "linux", target_pointer_width = "64")), expect(dead_code, reason = "there are no destructors"))]
pub(crate) fn unregister() {
    if IMAGE.is_registered.swap(false, Ordering::Relaxed) {
        if let Some(owner) = closure::runtime() {
            (owner.unregister)(&IMAGE);
        }
    }
}
