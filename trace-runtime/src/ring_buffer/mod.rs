//! The ring buffer.

mod append;
mod channel;
mod config;
mod core;
mod fallback;
mod header;
mod layout;
mod losses;
mod position;
mod reader;
mod sequence;

pub use self::append::{Outcome, append};
pub use self::channel::{Channel, MOST_PIECES};
pub use self::config::{ClockKind, Config, Geometry, HeaderKind, Mode, Placement};
pub use self::core::Core;
pub use self::fallback::{FALLBACK_HEADER, FallbackRecord};
pub use self::header::{Header, LONGEST_HEADER};
pub use self::layout::{CALLER_WORDS, SUPERBLOCK, Settings};
pub use self::losses::Losses;
pub use self::reader::{Packet, Purpose, Reader};
