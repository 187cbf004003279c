//! Aggregations of a peer: they end with its connection.

use super::serve::{Answered, refusal, value};
use crate::aggregate::{Aggregation, Bucket, Figures, Group, KeyValue, Number};
use serde_json::Value;
use trace_control::protocol::{self as words, Refusal, RefusalKind};

/// Aggregations of one connection.
const MOST: usize = 16;

pub(super) fn begin(wanted: &words::Aggregate, held: &mut Vec<Aggregation>) -> Answered {
    if held.len() >= MOST {
        return Err(Refusal::new(RefusalKind::TooMany, format!("a connection has at most {MOST} aggregations; open another")));
    }
    let mut builder = Aggregation::of(&wanted.what);
    if wanted.quantize {
        builder = builder.quantize();
    }
    if let Some(steps) = &wanted.lquantize {
        builder = builder.lquantize(steps.low..steps.high, steps.step);
    }
    if let Some(keys) = wanted.keys {
        builder = builder.keys(keys);
    }
    if wanted.sensitive {
        builder = builder.sensitive();
    }
    let aggregation = builder.start().map_err(|e| refusal(&e))?;
    let begun = words::Aggregating { number: held.len(), warnings: aggregation.warnings() };
    held.push(aggregation);
    value(&begun)
}

pub(super) fn read(number: usize, held: &[Aggregation]) -> Answered {
    let Some(aggregation) = held.get(number) else {
        let message = format!("this connection has {} aggregations, numbered from 0; begin one by `aggregate`", held.len());
        return Err(Refusal::new(RefusalKind::BadRequest, message));
    };
    let read = aggregation.read();
    value(&words::Aggregates {
        field: read.field,
        by: read.by,
        groups: read.groups.iter().map(group).collect(),
        valueless: read.valueless,
        filtered: read.filtered,
        limited: read.limited,
        lost: words::AggregateLosses {
            total: read.lost.total(),
            busy: read.lost.busy,
            nested: read.lost.nested,
            panicked: read.lost.panicked,
        },
    })
}

fn group(group: &Group) -> words::AggregateGroup {
    let Figures { count, sum, min, max, .. } = group.figures;
    words::AggregateGroup {
        event: group.event.clone(),
        keys: group.keys.as_ref().map(|keys| keys.iter().map(key).collect()),
        count,
        sum: number(sum),
        min: number(min),
        avg: group.figures.avg().into(),
        max: number(max),
        buckets: group.buckets.iter().map(bucket).collect(),
    }
}

fn bucket(bucket: &Bucket) -> words::AggregateBucket {
    let bound = |bound: Option<i128>| bound.map_or(Value::Null, integer);
    words::AggregateBucket { low: bound(bucket.low), high: bound(bucket.high), count: bucket.figures.count }
}

fn key(key: &KeyValue) -> Value {
    match key {
        KeyValue::Missing => Value::Null,
        KeyValue::Integer(value) => integer(*value),
        KeyValue::Bool(value) => (*value).into(),
        KeyValue::Float(value) => (*value).into(),
        KeyValue::Text(_) | KeyValue::Hashed(..) => key.to_string().into(),
    }
}

fn number(number: Option<Number>) -> Value {
    match number {
        Some(Number::Integer(value)) => integer(value),
        Some(Number::Float(value)) => value.into(),
        None => Value::Null,
    }
}

/// What is beyond 64 bits becomes a float.
fn integer(value: i128) -> Value {
    let signed = i64::try_from(value).map(Value::from);
    signed.or_else(|_| u64::try_from(value).map(Value::from)).unwrap_or_else(|_| (value as f64).into())
}
