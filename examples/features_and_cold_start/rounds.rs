//! Alternating minimisation by residual rounds: users fit themselves locally, items learn from released residuals through their features.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "numbers of items, features and rounds are small here"
)]

use dp_accounting::{Budget, Ledger, Plan, ReleaseRequest};
use dp_core::{Adjacency, ApproxDp, Interactions, Private, ReplaceFactor, UserRow};
use dp_linalg::{cholesky_in_place, cholesky_solve_in_place, project_psd_in_place};
use dp_mechanism::{Grid, NoiseSource, SparseBuffer, VectorContribution, VectorSum};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;

use crate::Result;
use crate::data::Prior;
use crate::ridge::Normal;

/// Public settings of a run.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// An item bias and `dim - 1` tastes.
    pub(crate) dim: usize,
    pub(crate) n_rounds: usize,
    /// Budget of a round over that of the round before.
    pub(crate) growth: f64,
    /// Share of the budget for items' total weights.
    pub(crate) weight_share: f64,
    /// What an older round's evidence still counts.
    pub(crate) memory: f64,
    /// Bound on a user's weighted residuals: first, ratio, least.
    pub(crate) bound: [f64; 3],
    /// Norm of a user's tastes beside the constant; squares add up to 1.
    pub(crate) taste: f64,
    /// Prior variance of an item vector's coordinate, for a kernel of diagonal 1.
    pub(crate) scale: f64,
    /// Noise of labels in the closed form.
    pub l2_penalty: f64,
    /// Ridge on a user's tastes when predicting.
    pub(crate) user_penalty: f64,
    /// Least total weight that is believed, in standard deviations of its noise.
    pub(crate) floor: f64,
    pub(crate) center: f64,
    pub(crate) shrinkage: f64,
}

/// Item vectors that anyone may see, and how users fold in.
pub(crate) struct Model {
    settings: Settings,
    pub(crate) vectors: Vec<f64>,
}

/// A user's level and vector, the latter with the constant in front.
pub(crate) struct Personal {
    level: f64,
    vector: Vec<f64>,
}

impl Model {
    fn constant(&self) -> f64 {
        if self.settings.dim == 1 {
            1.0
        } else {
            (1.0 - self.settings.taste.powi(2)).sqrt()
        }
    }

    fn row(&self, item: u32) -> &[f64] {
        &self.vectors[item as usize * self.settings.dim..][..self.settings.dim]
    }

    /// Level by shrunken mean of what the bias leaves, tastes by ridge regression.
    pub(crate) fn fold_in(&self, user: UserRow<'_>, penalty: f64) -> Personal {
        let (a, s) = (self.constant(), &self.settings);
        let left = |(item, y): (u32, f32)| f64::from(y) - s.center - a * self.row(item)[0];
        let level = user.iter().map(left).sum::<f64>() / (user.len() as f64 + s.shrinkage);
        let mut vector = vec![0.0; s.dim];
        let n = s.dim - 1;
        if n > 0 {
            let mut matrix = vec![0.0; n * n];
            matrix.iter_mut().step_by(n + 1).for_each(|x| *x = penalty);
            for (item, y) in user.iter() {
                let (v, e) = (&self.row(item)[1..], left((item, y)) - level);
                for i in 0..n {
                    vector[i + 1] += e * v[i];
                    for j in 0..n {
                        matrix[i * n + j] += v[i] * v[j];
                    }
                }
            }
            let solved = cholesky_in_place(&mut matrix, n)
                .and_then(|()| cholesky_solve_in_place(&matrix, n, &mut vector[1..]));
            if solved.is_err() {
                vector.fill(0.0);
            }
        }
        vector[0] = a;
        Personal {
            level: s.center + level,
            vector,
        }
    }

    pub(crate) fn predict(&self, user: &Personal, item: usize) -> f64 {
        let v = &self.vectors[item * self.settings.dim..];
        user.level + user.vector.iter().zip(v).map(|(u, v)| u * v).sum::<f64>()
    }
}

/// `.95 w_j` per item, `w_j = 1 / sqrt(n)`, and one more number: norm 1 at most.
struct Weights(u32);

impl VectorContribution for Weights {
    type Scratch = ();

    fn scratch(&self) {}

    fn contribute(&self, user: UserRow<'_>, (): &mut (), out: &mut SparseBuffer) {
        let w = (user.len() as f64).sqrt().recip();
        user.items().iter().for_each(|&j| out.push(j, 0.95 * w));
        out.push(self.0, 0.3);
    }
}

/// Share of a round's bound that the second moments of users get.
const MOMENT: f64 = 0.1;

/// `w_j e_j x` per item, of norm `bound` at most, and `MOMENT bound x x^T`.
struct Residuals<'a> {
    model: &'a Model,
    bound: f64,
}

impl VectorContribution for Residuals<'_> {
    type Scratch = ();

    fn scratch(&self) {}

    fn contribute(&self, user: UserRow<'_>, (): &mut (), out: &mut SparseBuffer) {
        let s = &self.model.settings;
        let mut own = self.model.fold_in(user, 1e-3 + s.user_penalty);
        let norm = own.vector[1..].iter().map(|u| u * u).sum::<f64>().sqrt();
        if norm > 0.0 {
            own.vector[1..]
                .iter_mut()
                .for_each(|u| *u *= s.taste / norm);
        }
        let w = (user.len() as f64).sqrt().recip();
        let each = user.iter();
        let residuals: Vec<f64> = each
            .map(|(item, y)| w * (f64::from(y) - self.model.predict(&own, item as usize)))
            .collect();
        let norm = residuals.iter().map(|e| e * e).sum::<f64>().sqrt();
        let scale = if norm > self.bound {
            self.bound / norm
        } else {
            1.0
        };
        for (&item, e) in user.items().iter().zip(residuals) {
            let first = item * s.dim as u32;
            let x = (first..).zip(&own.vector);
            x.for_each(|(at, x)| out.push(at, scale * e * x));
        }
        let last = self.model.vectors.len() as u32;
        for (a, x) in own.vector.iter().enumerate() {
            for (b, z) in own.vector.iter().enumerate() {
                let at = last + (a * s.dim + b) as u32;
                out.push(at, MOMENT * self.bound * x * z);
            }
        }
    }
}

/// Runs the rounds at `target`, delta and adjacency of the plan.
pub(crate) fn fit(
    settings: &Settings,
    prior: Prior,
    data: &Private<Interactions>,
    target: ApproxDp,
    seed: u64,
) -> Result<Model> {
    let (dim, n_items) = (settings.dim, prior.kernel.rows.len());
    let plan = plan(settings, n_items, target)?;
    let budget = Budget::new(target, Adjacency::AddRemoveUser)?;
    let mut spends = Ledger::in_memory("measurement", budget)?
        .reserve(&plan)?
        .into_iter();
    let mut noise = NoiseSource::insecure_seeded(seed);
    let mut release = |contribution: Contribution<'_>, n: usize, bound: f64| -> Result<_> {
        let spend = spends.next().ok_or("a spend is missing")?;
        let grid = Grid::new(spend.noise_multiplier()?, bound)?;
        let sum = match contribution {
            Contribution::Weights(c) => VectorSum::accumulate(data, n, grid, &c)?,
            Contribution::Residuals(c) => VectorSum::accumulate(data, n, grid, &c)?,
        };
        Ok(sum.release(spend, &mut noise)?)
    };
    let weights = Weights(u32::try_from(n_items)?);
    let totals = release(Contribution::Weights(weights), n_items + 1, 1.0)?;
    let noise_of_totals = totals.noise_stddev() / 0.95;
    let least = settings.floor * noise_of_totals;
    let totals = totals.values();
    let n_users = (totals[n_items] / 0.3).max(1.0);
    let totals: Vec<f64> = totals[..n_items]
        .iter()
        .map(|t| (t / 0.95).max(least))
        .collect();

    let kernel = prior.with_popularity(&totals, noise_of_totals.max(1.0));
    let mut dual = Vec::new();
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let mut model = Model {
        settings: settings.clone(),
        vectors: (0..n_items * dim)
            .map(|at| {
                if at % dim == 0 {
                    0.0
                } else {
                    rng.random::<f64>() - 0.5
                }
            })
            .collect(),
    };
    let mut seen = Evidence::new(n_items, dim);
    for round in 0..settings.n_rounds {
        let [first, ratio, floor] = settings.bound;
        let bound = (first * ratio.powi(i32::try_from(round)?)).max(floor);
        let residuals = Residuals {
            model: &model,
            bound,
        };
        let reach = bound * (1.0 + MOMENT * MOMENT).sqrt();
        let n = n_items * dim + dim * dim;
        let released = release(Contribution::Residuals(residuals), n, reach)?;
        let values = released.values();
        let (r, moments) = values.split_at(n_items * dim);
        let mut moments: Vec<f64> = (0..dim * dim)
            .map(|at| moments[at] + moments[at % dim * dim + at / dim])
            .map(|x| x / (2.0 * MOMENT * bound * n_users))
            .collect();
        project_psd_in_place(&mut moments, dim)?;
        seen.add(
            &totals,
            &moments,
            (r, &model.vectors),
            (released.noise_stddev(), settings.memory),
        );
        let (normal, noise) = seen.normal();
        let (l, s2) = (
            settings.l2_penalty / settings.scale,
            noise * noise / settings.scale,
        );
        model.vectors = normal.solve(&kernel, l, s2, &mut dual)?;
    }
    Ok(model)
}

enum Contribution<'a> {
    Weights(Weights),
    Residuals(Residuals<'a>),
}

fn plan(settings: &Settings, n_items: usize, target: ApproxDp) -> Result<Plan> {
    let request =
        |label, share, n: usize| ReleaseRequest::new(label, share, ReplaceFactor::Two, n as u64);
    let rounds: Vec<f64> = (0..settings.n_rounds)
        .map(|round| settings.growth.powi(round as i32))
        .collect();
    let whole: f64 = rounds.iter().sum();
    let n = n_items * settings.dim + settings.dim * settings.dim;
    let mut all = vec![request(
        "weights".to_owned(),
        settings.weight_share,
        n_items + 1,
    )];
    for (round, share) in rounds.iter().enumerate() {
        let share = (1.0 - settings.weight_share) * share / whole;
        all.push(request(format!("residuals {round}"), share, n));
    }
    Ok(Plan::calibrate(target, Adjacency::AddRemoveUser, &all)?)
}

/// Sums over releases, each weighed by one over its noise's variance.
struct Evidence {
    dim: usize,
    matrices: Vec<f64>,
    rhs: Vec<f64>,
    precision: f64,
    variance: f64,
}

impl Evidence {
    fn new(n_items: usize, dim: usize) -> Self {
        Self {
            dim,
            matrices: vec![0.0; n_items * dim * dim],
            rhs: vec![0.0; n_items * dim],
            precision: 0.0,
            variance: 0.0,
        }
    }

    fn add(
        &mut self,
        totals: &[f64],
        moments: &[f64],
        (residuals, v): (&[f64], &[f64]),
        (noise, memory): (f64, f64),
    ) {
        let (d, p) = (self.dim, (noise * noise).recip());
        let old = if self.precision > 0.0 { memory } else { 0.0 };
        for (item, total) in totals.iter().enumerate() {
            for a in 0..d {
                let mut image = 0.0;
                for b in 0..d {
                    let cell = total * 0.5 * (moments[a * d + b] + moments[b * d + a]);
                    image += cell * v[item * d + b];
                    let sum = &mut self.matrices[(item * d + a) * d + b];
                    *sum = old * *sum + p * cell;
                }
                let sum = &mut self.rhs[item * d + a];
                *sum = old * *sum + p * (residuals[item * d + a] + image);
            }
        }
        self.precision = old * self.precision + p;
        self.variance = old * old * self.variance + p;
    }

    /// Means, and the standard deviation of the noise of `b`.
    fn normal(&self) -> (Normal, f64) {
        let of = |sums: &[f64]| sums.iter().map(|x| x / self.precision).collect::<Vec<_>>();
        let (dim, noise) = (self.dim, self.variance.sqrt() / self.precision);
        let normal = Normal {
            dim,
            a: of(&self.matrices),
            b: of(&self.rhs),
        };
        (normal, noise)
    }
}
