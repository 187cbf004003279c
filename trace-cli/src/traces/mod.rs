//! Verbs about traces: directories on disk.
//!
//! A verb's words and options for which traces it reads are those of [`open`], for which events those of [`source`], which also reads on
//! all cores: in the order of time, or in any order. What several verbs need stands by itself: [`filter`], [`columns`] (fields by name), [`names`] (threads), [`counts`],
//! [`distribution`], [`slices`] (events that begin and end something), [`whole`] (where nothing is missing).

mod check;
mod columns;
mod convert;
mod counts;
mod diff;
mod distribution;
mod export;
mod filter;
mod formats;
mod hist;
mod json;
mod latency;
mod names;
mod open;
mod report;
mod slices;
mod source;
mod stats;
mod summary;
mod time;
mod tree;
mod trim;
mod view;
mod whole;

pub(crate) use hist::number;

use crate::Outcome;
use crate::common::Common;
use crate::failure::Failure;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Verb {
    View(view::Arguments),
    Formats(formats::Arguments),
    Stats(stats::Stats),
    Top(stats::Top),
    Hist(hist::Arguments),
    Latency(latency::Arguments),
    Tree(tree::Arguments),
    Diff(diff::Arguments),
    Check(check::Arguments),
    Export(export::Arguments),
    Trim(trim::Arguments),
    Convert(convert::Arguments),
    Report(report::Arguments),
}

impl Verb {
    pub(crate) fn run(&self, common: &Common) -> Result<Outcome, Failure> {
        match self {
            Self::View(arguments) => view::run(arguments, common),
            Self::Formats(arguments) => formats::run(arguments, common),
            Self::Stats(arguments) => stats::stats(arguments, common),
            Self::Top(arguments) => stats::top(arguments, common),
            Self::Hist(arguments) => hist::run(arguments, common),
            Self::Latency(arguments) => latency::run(arguments, common),
            Self::Tree(arguments) => tree::run(arguments, common),
            Self::Check(arguments) => check::run(arguments, common),
            Self::Report(arguments) => report::run(arguments, common),
            Self::Trim(arguments) => trim::run(arguments, common),
            Self::Convert(arguments) => convert::run(arguments, common),
            Self::Export(arguments) => export::run(arguments, common),
            Self::Diff(arguments) => diff::run(arguments, common),
        }
    }
}
