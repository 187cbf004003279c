//! `ringtrace hist`: how the values of a field are distributed.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::json;
use trace_control::protocol::{Aggregate, AggregateBucket, Steps};
use trace_ctf::reader::{Event, Scalar};

use super::columns::{Column, names, show};
use super::distribution::{Bucket, Distribution};
use super::open::why_no_trace;
use super::source::{Classes, Gather, Opened, Source, there_are};
use super::summary::Summary;
use crate::Outcome;
use crate::common::{Common, more_groups};
use crate::failure::{self, Failure};
use crate::live::aggregate::{Live, Options, histogram, names as names_of, steps};
use crate::live::text::{out, table};

/// Characters of the longest bar.
const BAR: usize = 40;
/// Groups, and texts of all of them, that are told apart; what comes later counts as others.
const GROUPS: usize = 1_000;
const TEXTS: usize = 50_000;

/// What the words are.
const WORDS: &str = "EVENT.FIELD, where * in EVENT stands for any text. `by FIELD`: a histogram for each value of another field, or of a \
                     context field such as vtid. The directory of a trace, or one above it; without one, the newest *.ringtrace here. Of \
                     a process, what a rule says: `by FIELD, FIELD`, `if EXPRESSION`";

/// Shows how the values of a field are distributed: as a plot of powers of two, or of equal steps, with percentiles.
///
/// Texts and enumerations are counted by value. Percentiles are within 1 %; the least and the greatest value are exact.
///
/// Examples: ringtrace hist shop:cache_lookup.bytes by outcome; ringtrace hist shop:request_begin.path
#[derive(Debug, clap::Args)]
#[command(mut_arg("words", |words| words.required(true).value_name("EVENT.FIELD [by FIELD] [DIRECTORY]").help(WORDS).long_help(WORDS)))]
pub(crate) struct Arguments {
    /// So many equal steps between the least and the greatest value; reads the trace twice.
    #[arg(long, value_name = "STEPS", value_parser = clap::value_parser!(u32).range(1..=1000))]
    linear: Option<u32>,

    /// How many groups are shown, and how many texts of each.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    count: usize,

    /// Of a process: equal steps in place of powers of two.
    #[arg(long, value_name = "LOW:HIGH:STEP", value_parser = steps)]
    lquantize: Option<Steps>,

    #[command(flatten)]
    options: Options,

    #[command(flatten)]
    live: Live,

    #[command(flatten)]
    source: Source,
}

/// The field behind `by`.
pub(super) fn by(words: &[String]) -> Result<Option<&str>, Failure> {
    match words {
        [] => Ok(None),
        [by, field] if by == "by" => Ok(Some(field)),
        [by] if by == "by" => Err(Failure::Wrong("by: the name of a field belongs behind it".to_owned())),
        [by, _, word, ..] if by == "by" => Err(surplus(word)),
        [word, ..] => Err(surplus(word)),
    }
}

fn surplus(word: &str) -> Failure {
    why_no_trace(word)
        .unwrap_or_else(|| Failure::Wrong(format!("{word}: write `by FIELD`, or a directory in which there is a trace")))
}

/// Values of one group.
#[derive(Clone, Debug, Default)]
struct Group {
    numbers: Distribution,
    texts: BTreeMap<String, u64>,
    /// Texts beyond those that are told apart.
    others: u64,
    /// Counts of equal steps.
    steps: Vec<u64>,
}

impl Group {
    fn merge(&mut self, other: &Self) {
        self.numbers.merge(&other.numbers);
        other.texts.iter().for_each(|(text, count)| *self.texts.entry(text.clone()).or_default() += count);
        self.others += other.others;
        self.steps.resize(self.steps.len().max(other.steps.len()), 0);
        self.steps.iter_mut().zip(&other.steps).for_each(|(step, count)| *step += count);
    }

    fn count(&self) -> u64 {
        self.numbers.count() + self.numbers.strange() + self.texts.values().sum::<u64>() + self.others
    }
}

/// What one thread of ours gathers.
struct Gathered {
    value: Column,
    by: Option<Column>,
    groups: BTreeMap<String, Group>,
    /// Texts of all groups.
    texts: usize,
    /// Least value and size of equal steps, and their number.
    steps: Option<(f64, f64, u32)>,
}

impl Gather for Gathered {
    fn event(&mut self, event: &Event<'_>) {
        let Some(value) = self.value.get(event) else { return };
        if let Scalar::Absent = value {
            return;
        }
        let mut key = match &mut self.by {
            Some(by) => by.text(event).unwrap_or_else(|| "-".to_owned()),
            None => String::new(),
        };
        if self.groups.len() >= GROUPS && !self.groups.contains_key(&key) {
            key = "others".to_owned();
        }
        let group = self.groups.entry(key).or_default();
        match value {
            Scalar::Unsigned(_) | Scalar::Signed(_) | Scalar::Long(_) | Scalar::Float(_) | Scalar::Flags(..) => {
                let number = value.as_f64().unwrap_or(f64::NAN);
                group.numbers.add(number);
                if let (Some((least, size, count)), true) = (self.steps, number.is_finite()) {
                    group.steps.resize(count as usize, 0);
                    let step = if size > 0.0 { ((number - least) / size) as usize } else { 0 };
                    group.steps[step.min(count as usize - 1)] += 1;
                }
            }
            _ => match show(value) {
                Some(text) if self.texts < TEXTS || group.texts.contains_key(&text) => {
                    let count = group.texts.entry(text).or_default();
                    self.texts += usize::from(*count == 0);
                    *count += 1;
                }
                _ => group.others += 1,
            },
        }
    }
}

/// Parts `EVENT.FIELD`, where both may have dots: the first way that fits counts.
pub(super) fn find<'o>(opened: &'o Opened, what: &str) -> Result<(Classes<'o>, String), Failure> {
    let splits = what.match_indices('.').map(|(at, _)| (&what[..at], &what[at + 1..]));
    let mut failed = None;
    for (event, field) in splits {
        match opened.named(event) {
            Ok(classes) => match Column::new(field, &classes) {
                Ok(_) => return Ok((classes, field.to_owned())),
                Err(error) => failed = Some(error),
            },
            Err(error) if failed.is_none() => failed = Some(error),
            Err(_) => {}
        }
    }
    Err(failed.unwrap_or_else(|| {
        let fields = match opened.named(what) {
            Ok(classes) => {
                let names: Vec<String> = classes.first().map(|(stream, class)| names(stream, class)).unwrap_or_default();
                there_are("fields", &names.iter().map(String::as_str).collect::<Vec<_>>())
            }
            Err(error) => return error,
        };
        Failure::Wrong(format!("{what}: write EVENT.FIELD\n  {fields}"))
    }))
}

/// Those of a process, while it runs.
fn live(arguments: &Arguments, common: &Common) -> Result<Outcome, Failure> {
    let (what, lquantize) = (arguments.source.place.words().join(" "), arguments.lquantize);
    let wanted = Aggregate { what, quantize: lquantize.is_none(), lquantize, ..Aggregate::default() };
    histogram(wanted, &arguments.options, &arguments.live, common, |figures, out| {
        for group in figures.groups.iter().take(arguments.count) {
            let shown = |value: &serde_json::Value| value.as_f64().map_or_else(|| "-".to_owned(), number);
            let [sum, min, avg, max] = [&group.sum, &group.min, &group.avg, &group.max].map(shown);
            writeln!(out, "{}", names_of(group, figures.by.len()).join(" "))?;
            writeln!(out, "{} values: min {min}, avg {avg}, max {max}, sum {sum}", group.count)?;
            let is_integral = !group.max.is_f64();
            let bounds = |b: &AggregateBucket| match (b.low.as_f64(), b.high.as_f64()) {
                (Some(0.0), Some(1.0)) if is_integral && lquantize.is_none() => number(0.0),
                (Some(low), Some(high)) => format!("{} … {}", number(low), number(high)),
                (None, Some(high)) => format!("below {}", number(high)),
                (low, None) => format!("from {}", number(low.unwrap_or_default())),
            };
            let rows: Vec<_> = group.buckets.iter().map(|b| (bounds(b), b.count)).collect();
            bars(&["from", ">count", ""], &rows, out)?;
        }
        more_groups(figures.groups.len(), arguments.count).map_or(Ok(()), |more| writeln!(out, "\n{more}"))
    })
}

pub(crate) fn run(arguments: &Arguments, common: &Common) -> Result<Outcome, Failure> {
    if arguments.live.is_meant() {
        return live(arguments, common);
    }
    let mut summary = Summary::default();
    let (words, opened) = arguments.source.open_by_name(&mut summary)?;
    let words: Vec<String> = words.iter().flat_map(|w| w.split_whitespace()).map(str::to_owned).collect();
    let (what, words) = words.split_first().ok_or_else(|| Failure::Wrong("write EVENT.FIELD".to_owned()))?;
    let (classes, field) = find(&opened, what).map_err(|failure| why_no_trace(what).unwrap_or(failure))?;
    let by = by(words)?;
    if let Some(by) = by {
        Column::new(by, &classes)?;
    }
    let gather = |steps, summary: &mut Summary| -> Result<BTreeMap<String, Group>, Failure> {
        let make = || Gathered {
            value: Column::anywhere(&field, &classes),
            by: by.map(|by| Column::anywhere(by, &classes)),
            groups: BTreeMap::new(),
            texts: 0,
            steps,
        };
        let mut groups: BTreeMap<String, Group> = BTreeMap::new();
        for part in opened.gather(summary, make) {
            part.groups.iter().for_each(|(key, group)| groups.entry(key.clone()).or_default().merge(group));
        }
        Ok(groups)
    };
    let mut groups = gather(None, &mut summary)?;
    let mut steps = None;
    if let Some(count) = arguments.linear {
        let spans = groups.values().filter_map(|group| group.numbers.span());
        let whole = spans.reduce(|(least, most), (low, high)| (least.min(low), most.max(high)));
        if let Some((least, most)) = whole {
            steps = Some((least, (most - least) / f64::from(count), count));
            groups = gather(steps, &mut Summary { is_quiet: true, ..Summary::default() })?;
        }
    }
    let mut groups: Vec<_> = groups.into_iter().filter(|(_, group)| group.count() > 0).collect();
    groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.count()));
    let mut out = io::BufWriter::new(out(common.json));
    let name = by.unwrap_or_default();
    for (number, (key, group)) in groups.iter().take(arguments.count).enumerate() {
        if common.json {
            let buckets: Vec<_> =
                buckets(group, steps).iter().map(|b| json!({ "low": b.low, "high": b.high, "count": b.count })).collect();
            let mut row = json!({ "field": what, "numbers": group.numbers.json(), "buckets": buckets,
                                  "texts": group.texts, "others": group.others });
            if by.is_some() {
                row["by"] = json!({ name: key });
            }
            writeln!(out, "{row}")?;
            continue;
        }
        if number > 0 {
            writeln!(out)?;
        }
        if by.is_some() {
            writeln!(out, "{name} {key}")?;
        }
        plot(group, steps, arguments.count, &mut out)?;
    }
    if let (Some(more), false) = (more_groups(groups.len(), arguments.count), common.json) {
        writeln!(out, "\n{more}")?;
    }
    out.flush()?;
    if groups.is_empty() {
        failure::note(format_args!("no event has a value of {}", what));
    }
    Ok(opened.close(&summary))
}

fn buckets(group: &Group, steps: Option<(f64, f64, u32)>) -> Vec<Bucket> {
    match steps {
        Some((least, size, _)) => {
            let bucket = |(step, count): (usize, &u64)| {
                let low = least + size * step as f64;
                Bucket { low, high: low + size, count: *count }
            };
            group.steps.iter().enumerate().map(bucket).collect()
        }
        None => group.numbers.powers(),
    }
}

fn plot(group: &Group, steps: Option<(f64, f64, u32)>, shown: usize, out: &mut impl Write) -> io::Result<()> {
    let numbers = &group.numbers;
    if let Some((least, most)) = numbers.span() {
        let [half, most_of, nearly] = [0.5, 0.9, 0.99].map(|share| number(numbers.quantile(share)));
        let (count, mean) = (numbers.count(), number(numbers.mean()));
        let (least, most) = (number(least), number(most));
        writeln!(out, "{count} values: min {least}, p50 {half}, p90 {most_of}, p99 {nearly}, max {most}, mean {mean}")?;
        let buckets = buckets(group, steps);
        let rows = buckets.iter().map(|b| (range(b), b.count)).collect::<Vec<_>>();
        bars(&["from", ">count", ""], &rows, out)?;
    }
    if numbers.strange() > 0 {
        writeln!(out, "{} values are infinite or no numbers", numbers.strange())?;
    }
    let mut texts: Vec<_> = group.texts.iter().map(|(text, count)| (text.clone(), *count)).collect();
    texts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let rest: u64 = texts.iter().skip(shown).map(|(_, count)| count).sum::<u64>() + group.others;
    let kinds = texts.len();
    texts.truncate(shown);
    if rest > 0 {
        texts.push(("others".to_owned(), rest));
    }
    if kinds > 0 {
        writeln!(out, "{} values, {kinds} different", group.count())?;
        bars(&["value", ">count", ""], &texts, out)?;
    }
    Ok(())
}

fn range(bucket: &Bucket) -> String {
    if bucket.low == bucket.high { number(bucket.low) } else { format!("{} … {}", number(bucket.low), number(bucket.high)) }
}

fn bars(headings: &[&str], rows: &[(String, u64)], out: &mut (impl Write + ?Sized)) -> io::Result<()> {
    let most = rows.iter().map(|(_, count)| *count).max().unwrap_or(1).max(1);
    let row = |(name, count): &(String, u64)| vec![name.clone(), count.to_string(), bar(*count, most)];
    write!(out, "{}", table(headings, rows.iter().map(row).collect()))
}

/// A bar in proportion, to an eighth of a character.
fn bar(count: u64, most: u64) -> String {
    let eighths = (count as f64 / most as f64 * (BAR * 8) as f64).round() as usize;
    let rest = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
    let bar = "█".repeat(eighths / 8) + rest;
    if bar.is_empty() && count > 0 { "▏".to_owned() } else { bar }
}

/// A number, with as many digits as tell something.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    if value == value.trunc() && size < 1e15 {
        format!("{value}")
    } else if (1e-3..1e6).contains(&size) {
        let digits = if size < 10.0 { 3 } else { 1 };
        format!("{value:.digits$}")
    } else {
        format!("{value:.3e}")
    }
}
