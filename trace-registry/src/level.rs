use core::fmt;
use core::str::FromStr;

macro_rules! levels {
    ($($(#[doc = $doc:literal])* $name:ident = $value:literal $text:literal,)*) => {
        /// Severity of an event: LTTng's fifteen levels, the most severe first.
        ///
        /// A rule with `level Info` takes the events of this level and of all more severe ones. `Error`, `Warn` and `Trace` are names of
        /// `Err`, `Warning` and `Debug`, which is the least severe of all. The levels of `tracing` map to `Err`, `Warning`, `Info`,
        /// `DebugFunction` and `Debug`.
        ///
        /// ```
        /// use trace_registry::Level;
        /// assert!(Level::Err < Level::Info);
        /// assert_eq!("debug-function".parse(), Ok(Level::DebugFunction));
        /// assert_eq!("warn".parse(), Ok(Level::Warning));
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Level { $($(#[doc = $doc])* $name = $value,)* }

        impl Level {
            /// All levels, the most severe first.
            pub const ALL: [Level; 15] = [$(Level::$name),*];

            /// Returns the level's name in lower case with hyphens, as rules and traces spell it.
            pub const fn name(self) -> &'static str {
                match self { $(Level::$name => $text),* }
            }
        }
    };
}

levels! {
    /// The system is unusable.
    Emerg = 0 "emerg",
    /// Action must be taken at once.
    Alert = 1 "alert",
    /// A critical condition.
    Crit = 2 "crit",
    /// An error.
    Err = 3 "err",
    /// A warning.
    Warning = 4 "warning",
    /// A normal but significant condition.
    Notice = 5 "notice",
    /// Information.
    Info = 6 "info",
    /// Debugging, scope of the system.
    DebugSystem = 7 "debug-system",
    /// Debugging, scope of a program.
    DebugProgram = 8 "debug-program",
    /// Debugging, scope of a process.
    DebugProcess = 9 "debug-process",
    /// Debugging, scope of a module.
    DebugModule = 10 "debug-module",
    /// Debugging, scope of a compilation unit.
    DebugUnit = 11 "debug-unit",
    /// Debugging, scope of a function.
    DebugFunction = 12 "debug-function",
    /// Debugging, scope of a line.
    DebugLine = 13 "debug-line",
    /// Debugging.
    Debug = 14 "debug",
}

/// Names that other tracers give to levels, and loggers.
const OTHER_NAMES: [(&str, Level); 3] = [("error", Level::Err), ("warn", Level::Warning), ("trace", Level::Debug)];

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The error of parsing a [`Level`] from a word that names none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownLevel;

impl fmt::Display for UnknownLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no such level; the levels are ")?;
        for (i, level) in Level::ALL.iter().enumerate() {
            write!(f, "{}{level}", if i == 0 { "" } else { ", " })?;
        }
        f.write_str("; ")?;
        for (i, (name, level)) in OTHER_NAMES.into_iter().enumerate() {
            write!(f, "{}{name} is {level}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl core::error::Error for UnknownLevel {}

impl FromStr for Level {
    type Err = UnknownLevel;

    /// Parses a name without regard to case, hyphens and underscores: `Debug-Function`, `DEBUG_FUNCTION`, `DebugFunction`. Also
    /// `error`, `warn` and `trace`.
    fn from_str(text: &str) -> Result<Self, UnknownLevel> {
        let letters = |s: &'static str| s.bytes().filter(|b| *b != b'-');
        let wanted = || text.bytes().filter(|b| !matches!(b, b'-' | b'_')).map(|b| b.to_ascii_lowercase());
        let mut names = Level::ALL.into_iter().map(|level| (level.name(), level)).chain(OTHER_NAMES);
        names.find(|(name, _)| letters(name).eq(wanted())).map(|(_, level)| level).ok_or(UnknownLevel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn names_round_trip_and_values_are_lttngs() {
        for (i, level) in Level::ALL.into_iter().enumerate() {
            assert_eq!(level as usize, i);
            assert_eq!(level.to_string().parse(), Ok(level));
            assert_eq!(alloc::format!("{level:?}").parse(), Ok(level));
        }
        assert_eq!("loud".parse::<Level>(), Err(UnknownLevel));
        for (name, level) in [("Error", Level::Err), ("WARN", Level::Warning), ("trace", Level::Debug)] {
            assert_eq!(name.parse(), Ok(level));
        }
    }
}
