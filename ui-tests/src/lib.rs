//! Holds the UI tests; see `tests/ui.rs`.
