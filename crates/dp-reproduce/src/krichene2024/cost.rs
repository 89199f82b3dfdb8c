//! `krichene2024-cost`: figures 5 and 6, the number of item visits, and the ratio of the cost of
//! statistics to that of gradients. Nothing is sampled.

use dp_pubfeat::cost::{TrainingSize, batches_with_item};
use serde_json::{Map, Value, json};

use super::super::report::Row;
use super::super::{ReproduceArgs, sizes};
use dp_personal::error::Result;

const BATCHES: [f64; 7] = [1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6];
const EPOCHS: [f64; 4] = [1.0, 10.0, 100.0, 1000.0];
/// Exponents of the density of counts, `f(x) ~ x^-alpha`; infinite for equal counts.
const EXPONENTS: [f64; 4] = [1.5, 2.0, 3.0, f64::INFINITY];

struct SetUp {
    n_examples: f64,
    n_items: f64,
    dim: f64,
}

pub(super) fn rows(args: &ReproduceArgs) -> Result<Vec<Row>> {
    let mut set_up = SetUp {
        n_examples: 1e6,
        n_items: 1e3,
        dim: 64.0,
    };
    sizes::apply(&args.size, "n_examples, n_items, dim", |key, value| {
        match key {
            "n_examples" => set_up.n_examples = value,
            "n_items" => set_up.n_items = sizes::whole(value) as f64,
            "dim" => set_up.dim = sizes::whole(value) as f64,
            _ => return false,
        }
        true
    })?;
    let mut rows = Vec::new();
    for exponent in EXPONENTS {
        for batch in BATCHES {
            let beta = set_up.visits(exponent, batch)?;
            let params = shape(exponent, batch);
            let metric = "visits of an item in an epoch";
            rows.push(figure("dp-sgd", params, metric, beta / set_up.n_items));
        }
    }
    for exponent in EXPONENTS {
        rows.extend(set_up.ratios(exponent)?);
    }
    Ok(rows)
}

impl SetUp {
    /// Probabilities of items whose counts have density `x^-alpha` from 1 on: the count at rank
    /// `(j - 1/2) / m` from the top is that fraction to the power of `-1 / (alpha - 1)`.
    fn probabilities(&self, exponent: f64) -> Vec<f64> {
        let power = -(exponent - 1.0).recip();
        let rank = |j: u32| ((f64::from(j) - 0.5) / self.n_items).powf(power);
        let counts: Vec<f64> = (1_u32..)
            .take_while(|j| f64::from(*j) <= self.n_items)
            .map(rank)
            .collect();
        let total: f64 = counts.iter().sum();
        counts.iter().map(|count| count / total).collect()
    }

    /// `beta`, the number of batches per epoch that contain an item, summed over all items.
    fn visits(&self, exponent: f64, batch: f64) -> Result<f64> {
        let probabilities = self.probabilities(exponent);
        let of_items = batches_with_item(&probabilities, self.n_examples, batch)?;
        Ok(of_items.iter().sum())
    }

    fn ratios(&self, exponent: f64) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        let passes = [("d^2", self.dim * self.dim), ("d", self.dim)];
        for (name, pass) in passes {
            for n_epochs in EPOCHS {
                let size = TrainingSize {
                    n_examples: self.n_examples,
                    n_items: self.n_items,
                    n_epochs,
                    dim: self.dim,
                    pass,
                };
                for batch in BATCHES {
                    let ratio = size.ratio(self.visits(exponent, batch)?)?;
                    let mut params = shape(exponent, batch);
                    params.insert("epochs".to_owned(), json!(n_epochs));
                    params.insert("pass".to_owned(), json!(name));
                    let metric = "cost over that of DP-SGD";
                    rows.push(figure("ssp-c", params, metric, ratio));
                }
            }
        }
        Ok(rows)
    }
}

fn shape(exponent: f64, batch: f64) -> Map<String, Value> {
    let exponent = if exponent.is_finite() {
        json!(exponent)
    } else {
        json!("equal counts")
    };
    Map::from_iter([
        ("exponent".to_owned(), exponent),
        ("batch".to_owned(), json!(batch)),
    ])
}

fn figure(
    method: &'static str,
    params: Map<String, Value>,
    metric: &'static str,
    value: f64,
) -> Row {
    Row::over_seeds(method, None, params, metric, &[value])
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET_UP: SetUp = SetUp {
        n_examples: 1e6,
        n_items: 1e3,
        dim: 64.0,
    };

    #[test]
    fn counts_follow_their_law_and_equal_ones_are_equal() {
        for p in SET_UP.probabilities(f64::INFINITY) {
            assert!((p - 1e-3).abs() < 1e-15);
        }
        // P(count > x) = x^-(alpha - 1): at alpha 2 a tenth of the items has more than 10 times the
        // smallest count
        let p = SET_UP.probabilities(2.0);
        let least = p.iter().copied().fold(1.0, f64::min);
        let above = p.iter().filter(|p| **p > 10.0 * least).count();
        assert!((95..=105).contains(&above), "{above}");
        assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn small_batches_visit_an_item_for_each_example_and_whole_ones_once() {
        for exponent in EXPONENTS {
            assert!((SET_UP.visits(exponent, 1.0).unwrap() - 1e6).abs() < 1e-3);
            assert!(SET_UP.visits(exponent, 1e6).unwrap() <= 1e3);
        }
        // items with skewed counts are visited less often
        let at = |exponent| SET_UP.visits(exponent, 1e3).unwrap();
        assert!(at(1.5) < at(2.0) && at(2.0) < at(f64::INFINITY));
    }
}
