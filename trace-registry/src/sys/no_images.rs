//! Where images are not looked for: each is alone.
#![expect(unsafe_code, reason = "has the other targets' signature")]

use crate::image::Image;
use core::ops::ControlFlow;

/// An image, and where it lies.
#[derive(Clone, Copy)]
pub struct Found {
    /// The image.
    pub image: &'static Image,
    /// What was added to the addresses in its file.
    pub base: usize,
    /// The first address behind its segments.
    pub end: usize,
}

/// Finds none.
///
/// # Safety
///
/// As where images are looked for.
pub unsafe fn images(_: &mut dyn FnMut(Found) -> ControlFlow<()>) {}
