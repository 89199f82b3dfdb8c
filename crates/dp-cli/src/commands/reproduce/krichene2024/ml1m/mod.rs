//! `krichene2024-ml1m`: MovieLens-1M with genres, decade and credits.

mod alternating;
mod data;
mod methods;
mod problem;
mod table;
mod time;

use self::data::Data;
use super::super::report::Row;
use super::super::{ReproduceArgs, sizes};
use crate::error::Result;

/// What is asked for.
struct Ask {
    seeds: Vec<u64>,
    epsilons: Vec<f64>,
    /// Settings to choose from are few, and cells too.
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
        sizes::apply(&args.size, "epsilon", |key, value| {
            epsilons = vec![value];
            key == "epsilon"
        })?;
        Ok(Self {
            seeds: seeds.collect(),
            epsilons,
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
    if ask
        .epsilons
        .iter()
        .any(|e| (e - time::EPSILON).abs() < 1e-9)
    {
        rows.extend(time::rows(&data, &ask)?);
    }
    Ok(rows)
}
