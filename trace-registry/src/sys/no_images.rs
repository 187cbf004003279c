//! Where images are not looked for: each is alone.

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
pub fn images(_: &mut dyn FnMut(Found) -> ControlFlow<()>) {}
