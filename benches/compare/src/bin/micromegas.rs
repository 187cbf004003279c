//! `micromegas-tracing`: `metric` records an integer with properties, `log` a text. Blocks are given to another thread, which
//! counts and drops them.

use compare::Tracer;
use micromegas_tracing::dispatch::{flush_log_buffer, flush_metrics_buffer};
use micromegas_tracing::event::{EventSink, TracingBlock as _};
use micromegas_tracing::guards::TracingSystemGuard;
use micromegas_tracing::levels::{LevelFilter, set_max_level};
use micromegas_tracing::logs::{LogBlock, LogMetadata, LogStream};
use micromegas_tracing::metrics::{MetricsBlock, MetricsStream};
use micromegas_tracing::prelude::*;
use micromegas_tracing::property_set::DynProperty;
use micromegas_tracing::spans::{ThreadBlock, ThreadStream};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

enum Block {
    Log(Arc<LogBlock>),
    Metrics(Arc<MetricsBlock>),
}

struct Sink(Sender<Block>);

impl EventSink for Sink {
    fn on_startup(&self, _: Arc<ProcessInfo>) {}
    fn on_shutdown(&self) {}
    fn on_log_enabled(&self, _: &LogMetadata) -> bool {
        true
    }
    fn on_log(&self, _: &LogMetadata, _: &[DynProperty<'_>], _: i64, _: fmt::Arguments<'_>) {}
    fn on_init_log_stream(&self, _: &LogStream) {}
    fn on_process_log_block(&self, block: Arc<LogBlock>) {
        let _ = self.0.send(Block::Log(block));
    }
    fn on_init_metrics_stream(&self, _: &MetricsStream) {}
    fn on_process_metrics_block(&self, block: Arc<MetricsBlock>) {
        let _ = self.0.send(Block::Metrics(block));
    }
    fn on_init_thread_stream(&self, _: &ThreadStream) {}
    fn on_process_thread_block(&self, _: Arc<ThreadBlock>) {}
    fn is_busy(&self) -> bool {
        false
    }
}

fn arrived(fired: u64) -> Option<u64> {
    flush_log_buffer();
    flush_metrics_buffer();
    Some(compare::count(fired))
}

struct Metric;

impl Tracer for Metric {
    type Thread<'a> = ();

    fn thread(&self) {}

    #[inline(always)]
    fn number((): &mut (), value: u64) {
        imetric!("number", "count", value);
    }

    #[inline(always)]
    fn mix((): &mut (), small: u32, large: u64, text: &str) {
        imetric!("mixed", "count", small = %small, text = text, large);
    }

    fn arrived(&self, fired: u64) -> Option<u64> {
        arrived(fired)
    }
}

struct Log;

impl Tracer for Log {
    type Thread<'a> = ();

    fn thread(&self) {}

    #[inline(always)]
    fn number((): &mut (), value: u64) {
        info!("number {value}");
    }

    #[inline(always)]
    fn mix((): &mut (), small: u32, large: u64, text: &str) {
        info!("mixed {small} {large} {text}");
    }

    fn arrived(&self, fired: u64) -> Option<u64> {
        arrived(fired)
    }
}

fn main() {
    let (sender, blocks) = channel();
    std::thread::spawn(move || {
        for block in blocks {
            let events = match &block {
                Block::Log(block) => block.nb_objects(),
                Block::Metrics(block) => block.nb_objects(),
            };
            compare::arrived_elsewhere(events as u64);
        }
    });
    const BUFFER: usize = 1 << 20;
    let _guard = TracingSystemGuard::new(BUFFER, BUFFER, BUFFER, Arc::new(Sink(sender)), HashMap::new(), false)
        .expect("the first telemetry");
    set_max_level(LevelFilter::Trace);
    match std::env::args().nth(1).as_deref() {
        Some("log") => compare::serve(&Log),
        _ => compare::serve(&Metric),
    }
}
