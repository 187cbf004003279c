//! Shared objects: dlopen(3).
#![expect(unsafe_code, reason = "calls the dynamic linker")]

use std::ffi::{CStr, CString, c_void};
use std::fs::File;
use std::mem::MaybeUninit;
use std::ops::{ControlFlow, Range};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::ptr::NonNull;
use trace_registry::image::Image;

/// A loaded object. Dropping it unloads the object.
pub(crate) struct Library(NonNull<c_void>);

// SAFETY: the dynamic linker locks for itself.
unsafe impl Send for Library {}

/// Beginning of `struct link_map`, dlinfo(3).
#[cfg(target_os = "linux")]
#[repr(C)]
struct LinkMap {
    base: usize,
}

impl Library {
    /// Loads an object, whose symbols nobody else sees.
    pub(crate) fn open(path: &Path) -> Result<Library, String> {
        let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| "its name has a zero byte".to_owned())?;
        // SAFETY: a path. That its constructors may run is the caller's promise.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        NonNull::new(handle).map(Library).ok_or_else(|| format!("the dynamic linker refuses it: {}", why()))
    }

    /// Returns its image and where that lies, if it has ringtrace in it.
    pub(crate) fn image(&self) -> Option<(&'static Image, Range<usize>)> {
        #[cfg(not(target_os = "linux"))]
        return None;
        #[cfg(target_os = "linux")]
        self.find()
    }

    #[cfg(target_os = "linux")]
    fn find(&self) -> Option<(&'static Image, Range<usize>)> {
        let mut map: *const LinkMap = std::ptr::null();
        // SAFETY: RTLD_DI_LINKMAP writes a pointer to the object's link map, which is there as long as the object.
        let base = unsafe {
            if dlinfo(self.0.as_ptr(), RTLD_DI_LINKMAP, (&raw mut map).cast()) != 0 || map.is_null() {
                return None;
            }
            (*map).base
        };
        find(|found| found.base == base)
    }
}

// <dlfcn.h>; the libc crate does not declare it for musl.
#[cfg(target_os = "linux")]
const RTLD_DI_LINKMAP: libc::c_int = 2;
#[cfg(target_os = "linux")]
unsafe extern "C" {
    fn dlinfo(handle: *mut libc::c_void, request: libc::c_int, info: *mut libc::c_void) -> libc::c_int;
}

/// Has the object of `image` stay mapped for ever, whatever dlclose(3) is told. Returns whether it does. Waits for the dynamic
/// linker's lock, unless the caller is a constructor, which has it.
pub(crate) fn keep(image: &'static Image) -> bool {
    let mut info = MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: dladdr(3) fills `info` where it does not return 0, with a name that stays as long as the object; nothing is loaded.
    let handle = unsafe {
        if libc::dladdr(std::ptr::from_ref(image).cast(), info.as_mut_ptr()) == 0 {
            return false;
        }
        libc::dlopen(info.assume_init().dli_fname, libc::RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE)
    };
    let Some(library) = NonNull::new(handle).map(Library) else { return false };
    // In another namespace there may be one of the same name.
    let is_it = library.image().is_some_and(|(found, _)| std::ptr::eq(found, image));
    if is_it {
        std::mem::forget(library);
    }
    is_it
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: opened once; whoever drops it sees to it that nothing of it is used.
        unsafe { libc::dlclose(self.0.as_ptr()) };
    }
}

fn why() -> String {
    // SAFETY: dlerror(3) returns a text that stays until the thread's next call, or null.
    unsafe {
        let text = libc::dlerror();
        if text.is_null() { "it does not say why".to_owned() } else { CStr::from_ptr(text).to_string_lossy().into_owned() }
    }
}

fn find(is_wanted: impl Fn(&trace_registry::sys::Found) -> bool) -> Option<(&'static Image, Range<usize>)> {
    let mut wanted = None;
    let mut look = |found: trace_registry::sys::Found| {
        if is_wanted(&found) {
            wanted = Some((found.image, found.base..found.end));
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    };
    // SAFETY: callers ask for images that they keep loaded, or that keep themselves loaded.
    unsafe { trace_registry::sys::images(&mut look) };
    wanted
}

/// Returns, of each thread that waits in the kernel and will return into `code`, the address that is farthest up its stack: where
/// what called the code comes back from it.
///
/// # References
///
/// proc_pid_syscall(5).
pub(crate) fn addresses_on_stacks(code: &Range<usize>) -> Vec<usize> {
    let mut found = Vec::new();
    let Ok(memory) = File::open("/proc/self/mem") else { return found };
    for thread in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        // Number, six arguments, stack pointer, instruction pointer; or `running`.
        let Ok(text) = std::fs::read_to_string(thread.path().join("syscall")) else { continue };
        let stack = text.split_whitespace().nth(7).and_then(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
        let Some(mut at) = stack.map(|stack| stack & !7) else { continue };
        let (mut page, mut last) = ([0; 4096], None);
        // The kernel reads it for us: it may be shorter.
        for _ in 0..DEEPEST / page.len() {
            let Ok(length) = memory.read_at(&mut page, at) else { break };
            at += length as u64;
            let mut words = page[..length].chunks_exact(8).map(|bytes| usize::from_ne_bytes(std::array::from_fn(|i| bytes[i])));
            last = words.rfind(|word| code.contains(word)).or(last);
        }
        found.extend(last);
    }
    found
}

/// Bytes of a stack that are looked at.
const DEEPEST: usize = 256 << 10;
