//! `init()` and the environment variable `RINGTRACE`.

use crate::agent;
use crate::error::Chain;
use crate::report;
use crate::session::Session;

/// The session that the environment asks for; the one that the command means where it is told no other.
pub(crate) const SESSION_NAME: &str = "default";

static ONCE: std::sync::Once = std::sync::Once::new();

/// What `RINGTRACE` asks for.
#[derive(Debug, PartialEq, Eq)]
enum Wish<'a> {
    /// Nothing, whatever the program says.
    Off,
    /// Every event into a trace.
    All,
    /// Every event on stderr.
    Print,
    /// What these rules match into a trace.
    Rules(&'a str),
}

impl Wish<'_> {
    fn parse(text: &str) -> Option<Wish<'_>> {
        match text.trim() {
            "" => None,
            "0" | "off" => Some(Wish::Off),
            "1" => Some(Wish::All),
            "print" => Some(Wish::Print),
            rules => Some(Wish::Rules(rules)),
        }
    }
}

/// Starts what the environment variable `RINGTRACE` asks for.
///
/// | `RINGTRACE` | Effect |
/// | --- | --- |
/// | unset or empty | nothing now; sessions may be started |
/// | `0`, `off` | tracing is off: sessions are refused too |
/// | `1` | records every event into `./PROGRAM-TIME.ringtrace` |
/// | `print` | prints every event on stderr, from the consumer's thread |
/// | rules, such as `storage:* level info; !storage:noise` | records what they match |
///
/// It may be called any number of times and from anywhere; only the first call does something. It never fails the program:
/// where tracing is not possible it says why on stderr, once, and tracing stays off. What was recorded is complete when the
/// process ends by returning from `main` or by `exit`. A setuid program ignores the variable.
///
/// ```
/// trace_runtime::init();
/// ```
pub fn init() {
    ONCE.call_once(|| {
        if crate::sys::is_secure_execution() {
            return;
        }
        let value = std::env::var_os("RINGTRACE").unwrap_or_default();
        let text = value.to_string_lossy();
        let wish = Wish::parse(&text);
        if wish == Some(Wish::Off) {
            return;
        }
        // Without the agent the environment is obeyed all the same.
        let _ = agent::start(report_agent);
        if let Some(wish) = wish {
            begin(wish);
        }
    });
}

/// A program that nobody wants to trace is silent, unless somebody keeps it from being traced.
fn report_agent(error: &std::io::Error) {
    if error.kind() == std::io::ErrorKind::PermissionDenied || std::env::var_os("RINGTRACE").is_some() {
        report::say(format_args!("the program cannot be controlled from outside: {error}"));
    }
}

/// Starts the session that the environment asks for.
fn begin(wish: Wish<'_>) {
    let builder = Session::builder(SESSION_NAME).for_agent();
    let (builder, announced) = match wish {
        Wish::Off => return,
        Wish::All => (builder.enable("*"), true),
        Wish::Print => (builder.enable("*").print(), false),
        Wish::Rules(rules) => (builder.enable(rules), true),
    };
    match builder.announced(announced).start() {
        Ok(session) => {
            for warning in session.warnings() {
                report::say(format_args!("{warning}"));
            }
            // It ends with the process, or when somebody ends it from outside.
            drop(session.into_recording());
        }
        Err(error) => report::say(format_args!("RINGTRACE: {}", Chain(&error))),
    }
}

/// Calls [`init`] when the program is loaded, before `main`.
#[cfg(feature = "auto")]
#[used]
// SAFETY: `.init_array` holds functions of this type, which the loader calls once.
#[unsafe(link_section = ".init_array")]
#[expect(unsafe_code, reason = "a constructor")]
static AUTO: extern "C" fn() = {
    extern "C" fn auto() {
        init();
    }
    auto
};

/// Whether the environment says that nothing is to be traced.
pub(crate) fn is_switched_off() -> bool {
    !crate::sys::is_secure_execution()
        && std::env::var_os("RINGTRACE").is_some_and(|v| Wish::parse(&v.to_string_lossy()) == Some(Wish::Off))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_is_understood() {
        assert_eq!(Wish::parse(" "), None);
        assert_eq!(Wish::parse("0"), Some(Wish::Off));
        assert_eq!(Wish::parse("off"), Some(Wish::Off));
        assert_eq!(Wish::parse(" print "), Some(Wish::Print));
        assert_eq!(Wish::parse("storage:*"), Some(Wish::Rules("storage:*")));
    }
}
