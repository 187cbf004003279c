//! Field types of the standard library proper.

use super::text::{texts, write_text};
use super::{Field, FieldClass, Payload, Sizes, Step, Value};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

// `as_encoded_bytes`: UTF-8 for every path that is; other bytes are recorded as they are.
texts! {
    Path => |p| p.as_os_str().as_encoded_bytes();
    PathBuf => |p| p.as_os_str().as_encoded_bytes();
    std::ffi::OsStr => |s| s.as_encoded_bytes();
    std::ffi::OsString => |s| s.as_encoded_bytes();
}

/// Nanoseconds since 1970 (UTC), negative before; as far as 64 bits go.
fn nanoseconds(time: SystemTime) -> i64 {
    let ns = |d: std::time::Duration| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => ns(after),
        Err(before) => -ns(before.duration()),
    }
}

/// Nanoseconds since 1970 (UTC), negative before.
impl Field for SystemTime {
    const CLASS: FieldClass = FieldClass::signed(64);
    const SIZES: Sizes = Sizes::fixed(8);
    #[inline(always)]
    fn write<'p>(&'p self, payload: &mut Payload<'p>) {
        payload.stage(nanoseconds(*self).to_ne_bytes());
    }
    fn value(&self, _: &[Step]) -> Value<'_> {
        Value::Integer(nanoseconds(*self).into())
    }
}
