//! What is said about aggregations.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Which events to aggregate, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Aggregate {
    /// `EVENT[.FIELD] [by FIELD, …] [if EXPRESSION]`.
    pub what: String,
    /// Keeps a histogram of powers of two.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub quantize: bool,
    /// Keeps a histogram of equal steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lquantize: Option<Steps>,
    /// How many keys are told apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<u32>,
    /// Takes sensitive fields.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
}

/// Equal steps of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Steps {
    /// Where the first one begins.
    pub low: i64,
    /// Where the last one ends, or a little behind.
    pub high: i64,
    /// Size of each.
    pub step: u64,
}

/// An aggregation of this connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AggregateNumber {
    /// As [`Aggregating`] says it.
    pub number: usize,
}

/// An aggregation has begun.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Aggregating {
    /// To ask for its figures by.
    pub number: usize,
    /// What is questionable about it.
    pub warnings: Vec<String>,
}

/// Figures of an aggregation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Aggregates {
    /// The field whose values are aggregated, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Names of the keys.
    pub by: Vec<String>,
    /// Those with most events first, the others of events last.
    pub groups: Vec<AggregateGroup>,
    /// Events whose field had no value.
    pub valueless: u64,
    /// Events that the expression rejected.
    pub filtered: u64,
    /// Events that the limit did not let through.
    pub limited: u64,
    /// Events that are in no figure though they should be, by cause.
    pub lost: AggregateLosses,
}

/// Events that an aggregation lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AggregateLosses {
    /// All causes.
    pub total: u64,
    /// Every lock was held.
    pub busy: u64,
    /// Nested too deeply.
    pub nested: u64,
    /// The probe panicked.
    pub panicked: u64,
}

/// Events with the same name and keys.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AggregateGroup {
    /// Name of the event.
    pub event: String,
    /// Its keys: numbers, booleans, texts, null where the event has none. `None`: those that found no room for keys of their own.
    pub keys: Option<Vec<Value>>,
    /// How many events.
    pub count: u64,
    /// Sum of the values; null: no field, or it took more than 64 bits.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub sum: Value,
    /// Least value.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub min: Value,
    /// Mean of the values.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub avg: Value,
    /// Greatest value.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub max: Value,
    /// The histogram, without empty buckets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub buckets: Vec<AggregateBucket>,
}

/// One bucket of a histogram.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AggregateBucket {
    /// Values are not below; null: no bound.
    pub low: Value,
    /// Values are below; null: no bound.
    pub high: Value,
    /// How many.
    pub count: u64,
}
