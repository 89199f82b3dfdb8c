//! One round of private matrix factorisation, with a matrix for each item and with one for all,
//! compared with one round without privacy, on generated ratings with the shape of MovieLens-1M and
//! -10M, and the time of its parts.
//!
//! `cargo bench -p dp-benches --bench round` (add `-- 1m` or `-- 10m` for one shape).

use std::time::Instant;

use dp_accounting::{Budget, Ledger, Plan, PlannedRelease, Spend};
use dp_core::{Adjacency, ApproxDp, Interactions, Private, ReplaceFactor};
use dp_data::LongTailRatings;
use dp_mechanism::{GramSums, NoiseSource};
use dp_multitask::{
    FactorModel, FactorizationParams, MatrixFactorization, NonPrivateAls, PooledMatrices,
    Provenance, TaskWeights,
};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

const REPETITIONS: usize = 5;
const MATRIX_NOISE: f64 = 8.0;
const RHS_NOISE: f64 = 4.0;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let shapes: [(&str, LongTailRatings); 2] = [
        ("1m", LongTailRatings::movielens_1m()),
        ("10m", LongTailRatings::movielens_10m()),
    ];
    println!(
        "{} threads, medians of {REPETITIONS} interleaved rounds",
        rayon::current_num_threads()
    );
    for (name, shape) in shapes {
        let named = |a: &String| ["1m", "10m"].contains(&a.as_str());
        if asked.iter().any(named) && !asked.iter().any(|a| a == name) {
            continue;
        }
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let ratings = shape.generate(&mut rng)?;
        for dim in [8, 16, 32, 64] {
            Shape::new(name, ratings.interactions(), dim)?.compare()?;
        }
    }
    Ok(())
}

/// One data shape and factor length, with everything that the rounds have in common.
struct Shape<'a> {
    name: &'static str,
    data: &'a Private<Interactions>,
    dim: usize,
    fit: MatrixFactorization,
    pooled: MatrixFactorization,
    weights: TaskWeights,
    factors: Vec<f64>,
}

/// Seconds of the parts of one private round.
#[derive(Clone, Copy)]
struct Parts {
    users: f64,
    users_and_sums: f64,
    noise: f64,
    items: f64,
}

impl Parts {
    fn total(self) -> f64 {
        self.users_and_sums + self.noise + self.items
    }
}

impl<'a> Shape<'a> {
    fn new(
        name: &'static str,
        data: &'a Private<Interactions>,
        dim: usize,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let params = FactorizationParams::adadpals_for_target(ApproxDp::target(5.0, 1e-5)?);
        let pooled = FactorizationParams {
            pooled_matrices: Some(PooledMatrices::default()),
            ..params.clone()
        };
        // realistic factors: a few rounds without privacy
        let model = als(dim, 2).fit(data)?;
        Ok(Self {
            name,
            data,
            dim,
            fit: params.check()?,
            pooled: pooled.check()?,
            weights: TaskWeights::uniform(data.expose().n_items()),
            factors: model.item_factors().to_vec(),
        })
    }

    fn compare(&self) -> Result<(), Box<dyn std::error::Error>> {
        let mut parts = Vec::new();
        let mut pooled = Vec::new();
        let mut exact = Vec::new();
        for _ in 0..REPETITIONS {
            parts.push(self.private_round(&self.fit)?);
            pooled.push(self.private_round(&self.pooled)?);
            exact.push(self.exact_round()?);
        }
        let exact = median(exact);
        self.show("private", &parts, exact);
        self.show("pooled", &pooled, exact);
        Ok(())
    }

    fn show(&self, what: &str, parts: &[Parts], exact: f64) {
        let pick = |part: fn(Parts) -> f64| median(parts.iter().map(|&p| part(p)).collect());
        let (total, users) = (pick(Parts::total), pick(|p| p.users));
        println!(
            "{:>4} dim {:>2}: {what:>7} {total:.3} s / non-private {exact:.3} s = {:.2}   \
             (user step {:.3}, quantise + bound + sums {:.3}, noise {:.3}, solve {:.3})",
            self.name,
            self.dim,
            total / exact,
            users,
            pick(|p| p.users_and_sums) - users,
            pick(|p| p.noise),
            pick(|p| p.items),
        );
    }

    fn private_round(
        &self,
        fit: &MatrixFactorization,
    ) -> Result<Parts, Box<dyn std::error::Error>> {
        let n_items = self.data.expose().n_items();
        let model = FactorModel::new(
            fit.params().scoring(self.dim),
            self.factors.clone(),
            Provenance::NonPrivate,
        )?;
        let statistics = fit.statistics(self.dim, &self.factors, &self.weights)?;
        let grids = fit.grids(MATRIX_NOISE, RHS_NOISE)?;
        let (matrix, rhs) = spends(n_items, self.dim)?; // reserving those of single matrices also pays for one
        let (users, _) = timed(|| model.fold_in_all(self.data));
        let (users_and_sums, sums) = timed(|| GramSums::accumulate(self.data, grids, &statistics));
        let sums = sums?;
        let item_weights = vec![100.0; n_items];
        let mut source = NoiseSource::operating_system();
        let (noise, released) = timed(|| sums.release(matrix, rhs, &mut source));
        let released = released?;
        let (items, solved) = timed(|| fit.solve_items(&released, Some(&item_weights)));
        solved?;
        Ok(Parts {
            users,
            users_and_sums,
            noise,
            items,
        })
    }

    /// The difference between three rounds and one, which excludes one-time work.
    fn exact_round(&self) -> Result<f64, Box<dyn std::error::Error>> {
        let (one, model) = timed(|| als(self.dim, 1).fit(self.data));
        model?;
        let (three, model) = timed(|| als(self.dim, 3).fit(self.data));
        model?;
        Ok((three - one) / 2.0)
    }
}

fn als(dim: usize, n_rounds: usize) -> NonPrivateAls {
    NonPrivateAls {
        dim,
        n_rounds,
        ..NonPrivateAls::default()
    }
}

fn spends(n_items: usize, dim: usize) -> Result<(Spend, Spend), Box<dyn std::error::Error>> {
    let adjacency = Adjacency::AddRemoveUser;
    let release = PlannedRelease::gaussian;
    let releases = vec![
        release(
            "matrices",
            MATRIX_NOISE,
            ReplaceFactor::SqrtTwo,
            GramSums::matrix_draws(n_items, dim),
        )?,
        release(
            "rhs",
            RHS_NOISE,
            ReplaceFactor::Two,
            GramSums::rhs_draws(n_items, dim),
        )?,
    ];
    let plan = Plan::with_noise_multipliers(1e-5, adjacency, releases)?;
    let budget = ApproxDp::target(plan.target().epsilon + 1.0, 1e-5)?;
    let mut ledger = Ledger::in_memory("bench", Budget::new(budget, adjacency)?)?;
    let mut spends = ledger.reserve(&plan)?;
    let rhs = spends.remove(1);
    Ok((spends.remove(0), rhs))
}

fn timed<T>(run: impl FnOnce() -> T) -> (f64, T) {
    let start = Instant::now();
    let value = run();
    (start.elapsed().as_secs_f64(), value)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
