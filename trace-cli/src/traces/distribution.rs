//! How values are distributed, in memory that does not grow with their number.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

/// Bits of the mantissa that tell values apart: percentiles are within one part in 128.
const PRECISION: u32 = 6;

/// Counts of values, by their size.
///
/// Values share a counter where their sign, exponent and the first bits of their mantissa are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Distribution {
    counts: BTreeMap<i64, Counter>,
    /// What is no number, or infinite.
    strange: u64,
    count: u64,
    sum: f64,
    span: Option<(f64, f64)>,
    has_fractions: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    count: u64,
    sum: f64,
}

impl Counter {
    fn add(&mut self, other: Self) {
        self.count += other.count;
        self.sum += other.sum;
    }
}

/// Values of a range, the lower end included.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bucket {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) count: u64,
}

impl Distribution {
    pub(super) fn add(&mut self, value: f64) {
        if !value.is_finite() {
            self.strange += 1;
            return;
        }
        self.counts.entry(key(value)).or_default().add(Counter { count: 1, sum: value });
        self.count += 1;
        self.sum += value;
        self.has_fractions |= value != value.trunc();
        self.span = Some(self.span.map_or((value, value), |(least, most)| (least.min(value), most.max(value))));
    }

    pub(super) fn merge(&mut self, other: &Self) {
        other.counts.iter().for_each(|(key, counter)| self.counts.entry(*key).or_default().add(*counter));
        self.strange += other.strange;
        self.count += other.count;
        self.sum += other.sum;
        self.has_fractions |= other.has_fractions;
        if let Some((low, high)) = other.span {
            self.span = Some(self.span.map_or((low, high), |(least, most)| (least.min(low), most.max(high))));
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// How many were not finite.
    pub(super) fn strange(&self) -> u64 {
        self.strange
    }

    /// The least and the greatest, exactly.
    pub(super) fn span(&self) -> Option<(f64, f64)> {
        self.span
    }

    pub(super) fn mean(&self) -> f64 {
        self.sum / self.count.max(1) as f64
    }

    /// The value that a share of the others does not exceed: the mean of those that share its counter.
    pub(super) fn quantile(&self, share: f64) -> f64 {
        let rank = ((share * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let (least, most) = self.span.unwrap_or_default();
        let mut passed = 0;
        for counter in self.counts.values() {
            passed += counter.count;
            if passed >= rank {
                // The last one is known exactly.
                if rank == self.count {
                    return most;
                }
                let mean = (counter.sum / counter.count as f64).clamp(least, most);
                return if self.has_fractions { mean } else { mean.round() };
            }
        }
        most
    }

    /// A bucket for each power of two.
    pub(super) fn powers(&self) -> Vec<Bucket> {
        let mut buckets: BTreeMap<i64, u64> = BTreeMap::new();
        self.counts.iter().for_each(|(key, counter)| *buckets.entry(octave(*key)).or_default() += counter.count);
        let bounds = |octave: i64| match octave {
            0 => (0.0, 0.0),
            _ if octave > 0 => (power(octave), power(octave + 1)),
            _ => (-power(1 - octave), -power(-octave)),
        };
        let filled = match (buckets.keys().next(), buckets.keys().next_back()) {
            // Gaps are shown, as long as they are not most of it.
            (Some(&low), Some(&high)) if low > 0 && high - low < 64 => (low..=high).collect::<Vec<_>>(),
            _ => buckets.keys().copied().collect(),
        };
        let bucket = |octave: i64| {
            let (low, high) = bounds(octave);
            Bucket { low, high, count: buckets.get(&octave).copied().unwrap_or_default() }
        };
        filled.into_iter().map(bucket).collect()
    }

    pub(super) fn json(&self) -> Json {
        let (least, most) = self.span.unwrap_or_default();
        json!({
            "count": self.count, "not_finite": self.strange, "min": least, "max": most, "mean": self.mean(),
            "p50": self.quantile(0.5), "p90": self.quantile(0.9), "p99": self.quantile(0.99), "p99_9": self.quantile(0.999),
        })
    }
}

/// Of a value that is finite: grows with it.
fn key(value: f64) -> i64 {
    if value == 0.0 {
        return 0;
    }
    let size = 1 + (value.abs().to_bits() >> (52 - PRECISION)) as i64;
    if value < 0.0 { -size } else { size }
}

fn octave(key: i64) -> i64 {
    match key {
        0 => 0,
        _ if key > 0 => 1 + ((key - 1) >> PRECISION),
        _ => -(1 + ((-key - 1) >> PRECISION)),
    }
}

/// Where the positive octave of a number begins.
fn power(octave: i64) -> f64 {
    f64::from_bits(((octave - 1) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two() {
        let mut all = Distribution::default();
        [0.0, 1.0, 1.5, 2.0, 3.0, 9.0, f64::NAN].into_iter().for_each(|value| all.add(value));
        let buckets: Vec<_> = all.powers().into_iter().map(|bucket| (bucket.low, bucket.high, bucket.count)).collect();
        assert_eq!(buckets, [(0.0, 0.0, 1), (1.0, 2.0, 2), (2.0, 4.0, 2), (8.0, 16.0, 1)]);
        assert_eq!((all.count(), all.strange(), all.span()), (6, 1, Some((0.0, 9.0))));
        assert_eq!((all.quantile(0.5), all.quantile(0.9)), (1.5, 9.0));
        let mut same = Distribution::default();
        [513.0, 513.0, 514.0, 515.0, 4096.0].into_iter().for_each(|value| same.add(value));
        assert_eq!((same.quantile(0.5), same.quantile(0.8)), (514.0, 514.0));
        let mut below = Distribution::default();
        [-3.0, -1.0].into_iter().for_each(|value| below.add(value));
        assert_eq!(below.powers()[0], Bucket { low: -4.0, high: -2.0, count: 1 });
    }

    proptest::proptest! {
        #[test]
        fn quantiles_are_near(mut values in proptest::collection::vec(-1e12..1e12f64, 1..200), share in 0.0..1.0f64) {
            let mut all = Distribution::default();
            values.iter().for_each(|value| all.add(*value));
            values.sort_by(f64::total_cmp);
            let rank = ((share * values.len() as f64).ceil() as usize).max(1);
            let exact = values[rank - 1];
            proptest::prop_assert!((all.quantile(share) - exact).abs() <= exact.abs() / 64.0, "{} {exact}", all.quantile(share));
            proptest::prop_assert_eq!(all.powers().iter().map(|bucket| bucket.count).sum::<u64>(), values.len() as u64);
        }
    }
}
