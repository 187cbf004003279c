//! Options that every verb takes.

use std::io::{self, IsTerminal as _};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use trace_ctf::metadata::Format;

/// Options that every verb takes, before or behind its name.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Common {
    /// JSON, one object per line, instead of text; also errors, warnings and notes, on the standard error stream.
    #[arg(long, global = true, display_order = 900)]
    pub(crate) json: bool,

    /// When to use colors: `auto` does on a terminal, unless the environment variable NO_COLOR is set.
    #[arg(long, global = true, display_order = 901, value_name = "WHEN", default_value = "auto", hide_possible_values = true)]
    color: Color,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Color {
    Auto,
    Always,
    Never,
}

/// Reads the name of a form of metadata.
pub(crate) fn format_parser() -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(["ctf1.8", "ctf2"]).try_map(|name| name.parse())
}

/// What to say of groups of which only some are `shown`; `None`: all are.
pub(crate) fn more_groups(groups: usize, shown: usize) -> Option<String> {
    match groups.saturating_sub(shown) {
        0 => None,
        1 => Some("and 1 more group: -n shows more".to_owned()),
        rest => Some(format!("and {rest} more groups: -n shows more")),
    }
}

impl Common {
    /// Whether text on standard output is colored: <https://no-color.org>.
    pub(crate) fn is_colored(&self) -> bool {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        match self.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                io::stdout().is_terminal() && !is_set("NO_COLOR") && std::env::var_os("TERM").is_some_and(|term| term != "dumb")
            }
        }
    }
}
