//! The page.

use std::collections::HashMap;
use std::fmt::Write as _;

use jiff::tz::TimeZone;
use serde_json::json;

use super::super::distribution::Distribution;
use super::super::hist::number;
use super::super::time::{self, span};
use super::{BINS, Drawn, Lost, Report};
use crate::live::text::{Bytes, Rate};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

pub(super) fn page(report: &Report, zone: &TimeZone) -> String {
    let mut page = String::new();
    let title = escape(&report.title);
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{title}</title><style>\n{STYLE}</style></head><body>\n<h1>{title}</h1>\n<nav><a href=\"#rate\">Rate</a>\
         <a href=\"#threads\">Threads</a><a href=\"#latency\">Latency</a><a href=\"#events\">Events</a><a href=\"#values\">Values</a></nav>\n"
    );
    overview(report, zone, &mut page);
    rate(report, &mut page);
    timeline(report, &mut page);
    latency(report, &mut page);
    events(report, &mut page);
    page.push_str("<h2 id=\"values\">Values</h2>\n");
    for (name, values) in &report.fields {
        let _ = writeln!(page, "<details><summary>{}</summary>", escape(name));
        histogram(values, number, &mut page);
        page.push_str("</details>\n");
    }
    let _ = write!(
        page,
        "<script type=\"application/json\" id=\"data\">{}</script>\n<script>\n{SCRIPT}</script>\n</body></html>\n",
        data(report)
    );
    page
}

fn overview(report: &Report, zone: &TimeZone, page: &mut String) {
    let total = &report.counts.total;
    let rate = total.rate(report.duration).map_or_else(|| "-".to_owned(), |rate| Rate(rate).to_string());
    let lost = &report.summary;
    let class = if lost.discarded_events + lost.lost_packets + lost.damaged > 0 { " class=\"loss\"" } else { "" };
    let rows = [
        ("from", time::show(report.first, zone)),
        ("duration", span(report.duration as f64)),
        ("events", format!("{}, {rate}, {}", total.events, Bytes(total.bytes))),
    ];
    page.push_str("<table>");
    for (name, value) in rows {
        let _ = write!(page, "<tr><th>{name}</th><td>{value}</td></tr>");
    }
    let _ = write!(
        page,
        "<tr><th>lost</th><td{class}>{} discarded events, {} lost packets, {} damaged files</td></tr>",
        lost.discarded_events, lost.lost_packets, lost.damaged
    );
    if let Some(missing) = &report.missing {
        let _ = write!(page, "<tr><th>whole</th><td class=\"loss\">{missing}</td></tr>");
    }
    page.push_str("</table>\n");
}

fn rate(report: &Report, page: &mut String) {
    let most = report.rate.iter().copied().max().unwrap_or(0).max(1);
    let seconds = report.duration.max(1) as f64 / 1e9 / BINS as f64;
    let peak = Rate(most as f64 / seconds);
    let _ = write!(
        page,
        "<h2 id=\"rate\">Rate</h2>\n<p>at most {peak}, in steps of {}</p>\n<svg viewBox=\"0 0 {BINS} 100\" preserveAspectRatio=\"none\" \
         height=\"120\" role=\"img\" aria-label=\"events over time; the table has the numbers\"><path fill=\"var(--bar)\" d=\"M0 100",
        span(seconds * 1e9)
    );
    for (place, count) in report.rate.iter().enumerate() {
        let height = 100.0 - *count as f64 * 96.0 / most as f64;
        let _ = write!(page, "V{height:.1}H{}", place + 1);
    }
    page.push_str("V100Z\"/></svg>\n<details><summary>as a table</summary><div class=\"scroll\" tabindex=\"0\"><table>");
    page.push_str("<tr><th class=\"n\">after</th><th class=\"n\">events</th><th class=\"n\">rate</th></tr>");
    const ROWS: usize = 60;
    for (row, counts) in report.rate.chunks(BINS / ROWS).enumerate() {
        let (count, after) = (counts.iter().sum::<u64>(), report.duration as f64 * row as f64 / ROWS as f64);
        let rate = Rate(count as f64 / (seconds * counts.len() as f64));
        let _ =
            write!(page, "<tr><td class=\"n\">{}</td><td class=\"n\">{count}</td><td class=\"n\">{rate}</td></tr>", span(after));
    }
    page.push_str("</table></div></details>\n");
}

fn timeline(report: &Report, page: &mut String) {
    page.push_str(
        "<h2 id=\"threads\">Threads</h2>\n<p>Above, slices; below, how many events. Keys: arrows move, + and - zoom, 0 shows all.</p>\n\
         <div class=\"tools\"><button id=\"left\" aria-label=\"earlier\">←</button><button id=\"right\" aria-label=\"later\">→</button>\
         <button id=\"in\" aria-label=\"zoom in\">+</button><button id=\"out\" aria-label=\"zoom out\">−</button>\
         <button id=\"all\">all</button><label>find <input id=\"search\" type=\"search\" placeholder=\"name of a slice\"></label>\
         <output id=\"where\"></output></div>\n<div id=\"frame\"><canvas id=\"timeline\" tabindex=\"0\" role=\"img\" \
         aria-label=\"timeline of the threads; the tables have the numbers\"></canvas></div>\n<ol id=\"found\"></ol>\n",
    );
    if report.merged > 0 {
        let (drawn, merged) = (report.slices.len(), report.merged);
        let _ = writeln!(
            page,
            "<p id=\"merged\">The {drawn} longest slices are drawn one by one. The {merged} others are merged: the darker, the larger the \
             share of the time that they take.</p>"
        );
    }
    page.push_str("<table><tr><th>thread</th><th class=\"n\">events</th><th class=\"n\">bytes</th></tr>");
    for (thread, count) in &report.counts.threads {
        let name = escape(&report.counts.names.show(thread));
        let _ = write!(
            page,
            "<tr><td>{name}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
            count.events,
            Bytes(count.bytes)
        );
    }
    page.push_str("</table>\n<details><summary>the longest slices as a table</summary><table>");
    page.push_str("<tr><th>slice</th><th class=\"n\">took</th><th class=\"n\">after</th><th>thread</th></tr>");
    for slice in report.slices.iter().take(100) {
        let (after, thread) = (span(slice.begin.abs_diff(report.first) as f64), escape(&report.counts.names.show(&slice.thread)));
        let (name, took) = (escape(&name(report, slice)), span(slice.duration as f64));
        let _ = write!(page, "<tr><td>{name}</td><td class=\"n\">{took}</td><td class=\"n\">{after}</td><td>{thread}</td></tr>");
    }
    page.push_str("</table></details>\n");
}

fn latency(report: &Report, page: &mut String) {
    page.push_str("<h2 id=\"latency\">Latency</h2>\n");
    if report.latencies.is_empty() {
        page.push_str(
            "<p>No two events begin and end something: their names differ in begin and end, entry and exit, or the like.</p>\n",
        );
        return;
    }
    page.push_str("<table><tr><th>slice</th><th class=\"n\">count</th>");
    page.push_str("<th class=\"n\">p50</th><th class=\"n\">p90</th><th class=\"n\">p99</th><th class=\"n\">max</th></tr>");
    for (name, all) in &report.latencies {
        let _ = write!(page, "<tr><td>{}</td><td class=\"n\">{}</td>", escape(name), all.count());
        for value in [all.quantile(0.5), all.quantile(0.9), all.quantile(0.99), all.span().unwrap_or_default().1] {
            let _ = write!(page, "<td class=\"n\">{}</td>", span(value));
        }
        page.push_str("</tr>");
    }
    page.push_str("</table>\n");
    for (name, all) in &report.latencies {
        let _ = writeln!(page, "<details><summary>{}</summary>", escape(name));
        histogram(all, span, page);
        page.push_str("</details>\n");
    }
}

fn events(report: &Report, page: &mut String) {
    page.push_str("<h2 id=\"events\">Events</h2>\n<table><tr><th>event</th><th class=\"n\">count</th>");
    page.push_str("<th class=\"n\">rate</th><th class=\"n\">bytes</th></tr>");
    for (name, count) in &report.counts.classes {
        let rate = count.rate(report.duration).map_or_else(|| "-".to_owned(), |rate| Rate(rate).to_string());
        let (name, bytes) = (escape(name), Bytes(count.bytes));
        let _ = write!(
            page,
            "<tr><td>{name}</td><td class=\"n\">{}</td><td class=\"n\">{rate}</td><td class=\"n\">{bytes}</td></tr>",
            count.events
        );
    }
    page.push_str("</table>\n");
}

/// A figure that is a table: a bar behind each count.
fn histogram(values: &Distribution, show: fn(f64) -> String, page: &mut String) {
    let buckets = values.powers();
    let most = buckets.iter().map(|bucket| bucket.count).max().unwrap_or(1).max(1);
    page.push_str("<table><tr><th class=\"n\">from</th><th class=\"n\">below</th><th class=\"n\">count</th><th></th></tr>");
    for bucket in &buckets {
        let (low, high, width) = (show(bucket.low), show(bucket.high), bucket.count as f64 * 100.0 / most as f64);
        let _ = write!(
            page,
            "<tr><td class=\"n\">{low}</td><td class=\"n\">{high}</td><td class=\"n\">{}</td><td class=\"bar\"><span \
             style=\"width:{width:.1}%\"></span></td></tr>",
            bucket.count
        );
    }
    page.push_str("</table>\n");
}

/// What a slice is called.
fn name(report: &Report, slice: &Drawn) -> String {
    let name = report.names.get(slice.pair as usize).map_or("", String::as_str);
    match slice.lost {
        Lost::Nothing => name.to_owned(),
        Lost::Begin => format!("{name} (begin lost)"),
        Lost::End => format!("{name} (end lost)"),
    }
}

/// What the script draws.
fn data(report: &Report) -> String {
    let lanes: HashMap<_, _> = report.lanes.iter().enumerate().map(|(number, lane)| (lane.thread, number)).collect();
    let (mut names, mut places): (Vec<String>, HashMap<(u32, Lost), usize>) = Default::default();
    let mut slices = Vec::new();
    for slice in &report.slices {
        let Some(lane) = lanes.get(&slice.thread) else { continue };
        let place = *places.entry((slice.pair, slice.lost)).or_insert_with(|| {
            names.push(name(report, slice));
            names.len() - 1
        });
        slices.push(json!([slice.begin.abs_diff(report.first), slice.duration, place, lane, slice.depth]));
    }
    let bin = report.duration.max(1) as f64 / BINS as f64;
    // Of each depth that has any: the bins in which there are some, each with the share of it.
    let shares = |merged: &Vec<u64>| {
        let taken = merged.iter().enumerate().filter(|(_, taken)| **taken > 0);
        taken.map(|(place, taken)| json!([place, ((*taken as f64 / bin).min(1.0) * 1000.0).ceil() / 1000.0])).collect::<Vec<_>>()
    };
    let threads: Vec<_> = report
        .lanes
        .iter()
        .map(|lane| {
            let merged: Vec<_> = lane.merged.iter().map(shares).collect();
            json!({ "name": report.counts.names.show(&lane.thread), "events": lane.events, "merged": merged })
        })
        .collect();
    let data = json!({ "duration_ns": report.duration, "bins": BINS, "threads": threads, "names": names, "slices": slices });
    // Nothing in it ends the element it stands in.
    data.to_string().replace('<', "\\u003c")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
