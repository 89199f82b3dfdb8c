//! `krichene2024-ml1m`: MovieLens-1M with genres, decade and credits.

mod alternating;
mod best;
mod data;
mod methods;
mod problem;
mod table;
mod time;

use self::data::Data;
use super::super::report::Row;
use super::super::{ReproduceArgs, sizes};
use dp_personal::error::Result;

/// The selected methods and sizes.
struct Ask {
    seeds: Vec<u64>,
    epsilons: Vec<f64>,
    /// One method alone, by its number in the table counted from 1; time against quality is then
    /// skipped.
    method: Option<usize>,
    /// Whether to use few candidate settings and few cells.
    quick: bool,
}

impl Ask {
    fn new(args: &ReproduceArgs) -> Result<Self> {
        let seeds = (0..args.seeds).map(|s| args.seed_base.wrapping_add(s));
        let mut epsilons = if args.quick {
            vec![5.0]
        } else {
            vec![1.0, 5.0, 20.0]
        };
        let mut method = None;
        sizes::apply(&args.size, "epsilon, method", |key, value| match key {
            "epsilon" => {
                epsilons = vec![value];
                true
            }
            "method" => {
                method = Some(sizes::whole(value));
                method.is_some_and(|n| (1..=methods::METHODS.len()).contains(&n))
            }
            _ => false,
        })?;
        Ok(Self {
            seeds: seeds.collect(),
            epsilons,
            method,
            quick: args.quick,
        })
    }
}

/// Ratings, lists, and time against quality.
pub(super) fn rows(args: &ReproduceArgs) -> Result<Vec<Row>> {
    let ask = Ask::new(args)?;
    let data = Data::read(args)?;
    let mut rows = table::baselines(&data)?;
    for &epsilon in &ask.epsilons {
        rows.extend(table::rows(&data, &ask, epsilon)?);
    }
    let at_its_epsilon = |e: &f64| (e - time::EPSILON).abs() < 1e-9;
    if ask.method.is_none() && ask.epsilons.iter().any(at_its_epsilon) {
        rows.extend(time::rows(&data, &ask)?);
    }
    Ok(rows)
}
