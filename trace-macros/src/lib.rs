//! Ringtrace.
