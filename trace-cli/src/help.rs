//! The command line as clap sees it, with its verbs in groups.

use clap::{Command, CommandFactory as _, FromArgMatches as _, Subcommand as _};

use crate::{Arguments, failure, live, shell, traces};

/// What this process was started with. Only who is to read about the verbs waits for their groups.
pub(crate) fn arguments() -> Arguments {
    let matches = Arguments::command().try_get_matches().or_else(|_| command().try_get_matches());
    matches.and_then(|matches| Arguments::from_arg_matches(&matches)).unwrap_or_else(|error| refuse(&error))
}

/// Ends with what clap has to say: help, or what is wrong with the command line.
fn refuse(error: &clap::Error) -> ! {
    let is_json = std::env::args_os().take_while(|argument| argument != "--").any(|argument| argument == "--json");
    if !is_json || !error.use_stderr() {
        error.exit();
    }
    failure::tell_in_json();
    let text = error.render().to_string();
    let text = text.trim_end();
    failure::error(format_args!("{}", text.strip_prefix("error: ").unwrap_or(text)));
    std::process::exit(error.exit_code());
}

/// The whole command line.
pub(crate) fn command() -> Command {
    let command = Arguments::command();
    let groups = [
        ("Live", live::Verb::augment_subcommands(Command::new("live"))),
        ("Traces", traces::Verb::augment_subcommands(Command::new("traces"))),
        ("Shell", shell::Verb::augment_subcommands(Command::new("shell"))),
    ];
    // clap has one heading for all subcommands, so the groups are part of the template.
    let width = command.get_subcommands().map(|verb| verb.get_name().len()).max().unwrap_or(0);
    let mut template = String::from("{about-with-newline}\n{usage-heading} {usage}\n");
    for (heading, group) in groups {
        template.push_str(&format!("\n{heading}:\n"));
        for verb in group.get_subcommands() {
            let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
            template.push_str(&format!("  {:width$}  {about}\n", verb.get_name()));
        }
    }
    template.push_str("  help{after-help-gap}Shows the help of a verb\n\nOptions:\n{options}{after-help}");
    let gap = " ".repeat(width.saturating_sub(2));
    command.help_template(template.replace("{after-help-gap}", &gap)).subcommand_required(true).arg_required_else_help(true)
}
