//! The first release of every fit as integers, recovered from the input of a learner or the
//! movement of an encoder.

use dp_accounting::Plan;
use dp_core::{Adjacency, DpEvent, Interactions, Private};
use dp_mechanism::{GramGrids, Grid, NoiseSource};
use dp_pubfeat::{
    AmImplicitSspParams, AmResidualSspParams, ConvexSspParams, CurvatureContribution, DpSgdParams,
    FeaturePrior, ItemStatistics, KernelRidge, LinearEncoder, Logistic, Observed, Optimiser,
    PriorVariances, ProblemSetup, PublicEncoder, ResidualSspParams, Result, SampledSspParams,
    SspContribution, SspParams, StatisticsLearner, Trainer,
};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::support::{DIM, N_ITEMS, features, look, observed, pay, ridge, target};

/// One released sum in steps of its grid, noise included; the noise is the same in every run.
pub(crate) struct Sums {
    pub(crate) name: String,
    pub(crate) steps: Vec<f64>,
    /// Weight of a coordinate's square: 2 for an off-diagonal coordinate that represents two cells.
    pub(crate) weights: Vec<u128>,
    pub(crate) l2_bound: u64,
}

impl Sums {
    fn new(name: &str, values: impl IntoIterator<Item = f64>, step: f64, grid: &Grid) -> Self {
        let steps: Vec<f64> = values.into_iter().map(|x| x / step).collect();
        Self {
            name: name.to_owned(),
            weights: vec![1; steps.len()],
            steps,
            l2_bound: grid.l2_bound(),
        }
    }

    /// In exact integers: differences of released numbers are whole steps.
    pub(crate) fn squared_distance(&self, other: &Self) -> u128 {
        let pairs = self.steps.iter().zip(&other.steps).zip(&self.weights);
        pairs
            .map(|((a, b), weight)| {
                let whole = (a - b).round();
                assert!((a - b - whole).abs() < 1e-2, "{}: not whole", self.name);
                weight * u128::from((whole as i64).unsigned_abs()).pow(2)
            })
            .sum()
    }

    pub(crate) fn squared_bound(&self) -> u128 {
        u128::from(self.l2_bound).pow(2)
    }
}

type OnTable = dyn Fn(&Private<Interactions>) -> Vec<Sums>;

/// A fit with repeatable noise, stopped after its first release.
pub(crate) struct Release(pub(crate) Box<OnTable>);

impl Release {
    pub(crate) fn sums(&self, table: &Private<Interactions>) -> Vec<Sums> {
        (self.0)(table)
    }
}

/// Records the statistics that it receives; its item vectors are fixed.
#[derive(Clone)]
struct Recorder {
    inner: KernelRidge,
    vectors: Vec<f64>,
    seen: Vec<ItemStatistics>,
}

impl Recorder {
    fn at(vectors: Vec<f64>) -> Self {
        Self {
            inner: ridge(),
            vectors,
            seen: Vec::new(),
        }
    }

    fn zero() -> Self {
        Self::at(vec![0.0; N_ITEMS * DIM])
    }
}

impl StatisticsLearner for Recorder {
    fn n_items(&self) -> usize {
        self.inner.n_items()
    }

    fn dim(&self) -> usize {
        self.inner.dim()
    }

    fn learn(&mut self, statistics: &ItemStatistics) -> Result<()> {
        self.seen.push(statistics.clone());
        Ok(())
    }

    fn item_vectors(&self) -> Result<Vec<f64>> {
        Ok(self.vectors.clone())
    }
}

/// Noise multiplier of a Gaussian event, sampled or not.
pub(crate) fn multiplier(event: &DpEvent) -> f64 {
    match event {
        &DpEvent::Gaussian {
            noise_multiplier, ..
        } => noise_multiplier,
        DpEvent::PoissonSampled { event, .. } => multiplier(event),
        _ => panic!("another mechanism"),
    }
}

fn noise_of(plan: &Plan, k: usize) -> f64 {
    multiplier(plan.releases()[k].event())
}

fn noise() -> NoiseSource {
    NoiseSource::insecure_seeded(5)
}

fn rhs(name: &str, seen: &ItemStatistics, step: f64, grid: &Grid) -> Sums {
    let values = (0..N_ITEMS).flat_map(|j| seen.rhs(j).to_vec());
    Sums::new(&format!("{name}: right-hand sides"), values, step, grid)
}

/// Upper triangles, with off-diagonal entries divided by `off_diagonal` in addition.
fn triangles(seen: &ItemStatistics, off_diagonal: f64) -> Vec<f64> {
    let cells = (0..DIM).flat_map(|a| (a..DIM).map(move |b| (a, b)));
    let of_item = |j| {
        let matrix = seen.matrix(j).to_vec();
        let scale = move |a, b| if a == b { 1.0 } else { off_diagonal };
        { cells.clone() }.map(move |(a, b)| matrix[a * DIM + b] / scale(a, b))
    };
    (0..N_ITEMS).flat_map(of_item).collect()
}

fn grams(name: &str, seen: &ItemStatistics, grids: &GramGrids) -> Vec<Sums> {
    let matrix = grids.matrix();
    let name_of = format!("{name}: matrices");
    let mut sums = Sums::new(&name_of, triangles(seen, 1.0), matrix.step(), matrix);
    let cells = (0..DIM).flat_map(|a| (a..DIM).map(move |b| if a == b { 1 } else { 2 }));
    sums.weights = cells.collect::<Vec<_>>().repeat(N_ITEMS);
    vec![sums, rhs(name, seen, grids.rhs().step(), grids.rhs())]
}

fn ssp(setup: &ProblemSetup, adjacency: Adjacency) -> Release {
    let ssp = SspParams::new(setup.clone()).check().unwrap();
    let plan = ssp.plan(N_ITEMS, target(), adjacency).unwrap();
    let grids = SspContribution::new(setup).grids(noise_of(&plan, 0), noise_of(&plan, 1));
    let grids = grids.unwrap();
    Release(Box::new(move |table| {
        let fitted = ssp
            .with(Recorder::zero())
            .fit(table, &plan, pay(&plan), &mut noise());
        grams("ssp", &fitted.unwrap().model.seen[0], &grids)
    }))
}

/// The residuals of the first step, which are the labels.
fn residual(setup: &ProblemSetup, adjacency: Adjacency) -> Release {
    let params = ResidualSspParams::new(setup.clone(), 1, 1.0, 0.2);
    let fit = params.check().unwrap();
    let plan = fit.plan(N_ITEMS, target(), adjacency).unwrap();
    let setup = &fit.params().setup;
    let grid = Grid::new(noise_of(&plan, 2), setup.user_norm * setup.label_reach()).unwrap();
    Release(Box::new(move |table| {
        let fitted = fit
            .with(Recorder::zero())
            .fit(table, &plan, pay(&plan), &mut noise());
        let seen = &fitted.unwrap().model.seen[0];
        vec![rhs("residual", seen, grid.step(), &grid)]
    }))
}

/// The slopes at 0: `b = A 0 - g`.
fn convex(setup: &ProblemSetup, adjacency: Adjacency) -> Release {
    let mut params = ConvexSspParams::new(setup.clone(), 1);
    params.slope_norm = 0.3;
    let fit = params.check().unwrap();
    let plan = fit.plan(N_ITEMS, target(), adjacency).unwrap();
    let zero = vec![0.0; N_ITEMS * DIM];
    let contribution = CurvatureContribution::new(setup, &Logistic, &zero, 0.3).unwrap();
    let (matrix, rhs_noise) = (noise_of(&plan, 0), noise_of(&plan, 1));
    let grids = contribution.grids(matrix, rhs_noise).unwrap();
    Release(Box::new(move |table| {
        let (spends, noise) = (pay(&plan), &mut noise());
        let fitted = fit
            .with(Logistic, Recorder::zero())
            .fit(table, &plan, spends, noise);
        let seen = &fitted.unwrap().model.seen[0];
        vec![rhs("convex", seen, grids.rhs().step(), grids.rhs())]
    }))
}

/// With every unit in the sample.
fn sampled(setup: &ProblemSetup, adjacency: Adjacency) -> Release {
    let (share, setup) = (0.4_f64, setup.clone());
    let params = SampledSspParams {
        setup: setup.clone(),
        matrix_share: share,
        n_steps: 1,
        sampling_probability: 1.0,
    };
    let fit = params.check().unwrap();
    let plan = fit.plan(N_ITEMS, target(), adjacency).unwrap();
    let grid = Grid::new(noise_of(&plan, 0), 1.0).unwrap();
    let norm = setup.user_norm;
    let matrix_unit = norm * norm / share.sqrt();
    let rhs_unit = norm * setup.label_reach() / (1.0 - share).sqrt();
    Release(Box::new(move |table| {
        let fitted = fit
            .with(Recorder::zero())
            .fit(table, &plan, pay(&plan), &mut noise());
        let seen = &fitted.unwrap().model.seen[0];
        let matrices = triangles(seen, 0.5_f64.sqrt()).into_iter();
        let rhs = (0..N_ITEMS).flat_map(|j| seen.rhs(j).to_vec());
        let values = matrices.map(|x| x / matrix_unit);
        let values = values.chain(rhs.map(|x| x / rhs_unit));
        vec![Sums::new("sampled", values, grid.step(), &grid)]
    }))
}

fn sgd(setup: &ProblemSetup) -> dp_pubfeat::DpSgd {
    let params = DpSgdParams {
        setup: setup.clone(),
        n_steps: 1,
        sampling_probability: 1.0,
        gradient_norm: 0.5,
        optimiser: Optimiser::Sgd { rate: 1.0 },
    };
    params.check().unwrap()
}

/// With every unit in the batch, and users' vectors as given or fitted.
fn gradient(setup: &ProblemSetup, adjacency: Adjacency, fitted: bool) -> Release {
    let (sgd, setup) = (sgd(setup), setup.clone());
    let mut encoder = LinearEncoder::zeros(features(), DIM).unwrap();
    if fitted {
        encoder = away_from_zero();
    }
    let n_rows = encoder.parameters().len() / DIM;
    let plan = sgd.plan(n_rows, target(), adjacency).unwrap();
    let grid = Grid::new(noise_of(&plan, 0), 0.5).unwrap();
    Release(Box::new(move |table| {
        let (encoder, spends, noise) = (encoder.clone(), pay(&plan), &mut noise());
        let (name, done) = if fitted {
            let am = crate::support::am_ssp(setup.clone(), 1);
            let trainer = sgd.alternating(encoder, am.params().user_step, 1).unwrap();
            let done = trainer.fit(table, &plan, spends, noise);
            ("gradient of ratings", done)
        } else {
            (
                "gradient",
                sgd.with(encoder).fit(table, &plan, spends, noise),
            )
        };
        let moved = done.unwrap().model;
        let values = moved.parameters().iter().copied();
        vec![Sums::new(name, values, grid.step(), &grid)]
    }))
}

fn away_from_zero() -> LinearEncoder {
    let mut encoder =
        LinearEncoder::random(features(), DIM, &mut ChaCha20Rng::seed_from_u64(5)).unwrap();
    encoder.parameters_mut().iter_mut().for_each(|t| *t *= 8.0);
    encoder
}

fn am_ssp(setup: &ProblemSetup, adjacency: Adjacency) -> Release {
    let am = crate::support::am_ssp(setup.clone(), 1);
    let plan = am.plan(N_ITEMS, target(), adjacency).unwrap();
    let grids = SspContribution::new(setup).grids(noise_of(&plan, 0), noise_of(&plan, 1));
    let grids = grids.unwrap();
    let items: Vec<u32> = (0..N_ITEMS as u32).collect();
    let mut vectors = vec![0.0; N_ITEMS * DIM];
    away_from_zero().forward(&items, &mut vectors).unwrap();
    Release(Box::new(move |table| {
        let learner = Recorder::at(vectors.clone());
        let fitted = am.with(learner).fit(table, &plan, pay(&plan), &mut noise());
        grams("am-ssp", &fitted.unwrap().model.seen[0], &grids)
    }))
}

/// Every fit on given vectors.
pub(crate) fn of_all(setup: &ProblemSetup, adjacency: Adjacency) -> Vec<Release> {
    vec![
        ssp(setup, adjacency),
        residual(setup, adjacency),
        convex(setup, adjacency),
        sampled(setup, adjacency),
        gradient(setup, adjacency, false),
    ]
}

/// Every fit on ratings.
pub(crate) fn of_ratings(setup: &ProblemSetup, adjacency: Adjacency) -> Vec<Release> {
    vec![
        am_ssp(setup, adjacency),
        gradient(setup, adjacency, true),
        crate::first_release::am_residual(adjacency),
        crate::first_release::am_implicit(adjacency),
    ]
}

/// Total weights and the first round, whose item vectors are public: neither depends on the other.
pub(crate) fn am_residual(adjacency: Adjacency) -> Release {
    let mut params = AmResidualSspParams::for_target(target());
    params.n_rounds = 1;
    params.user_step.label_center = 0.0;
    let fit = params.check().unwrap();
    let plan = fit.plan(N_ITEMS, target(), adjacency).unwrap();
    let features = features();
    let prior = FeaturePrior::new(&features, PriorVariances::for_features(&features)).unwrap();
    Release(Box::new(move |table| {
        let noise = &mut NoiseSource::insecure_seeded(5);
        let mut sums = Vec::new();
        observed(&fit.with(&prior), table, &plan, noise, |seen| {
            record("am-residual", seen, &mut sums);
        })
        .unwrap();
        sums
    }))
}

/// The same for implicit feedback.
pub(crate) fn am_implicit(adjacency: Adjacency) -> Release {
    let mut params = AmImplicitSspParams::for_target(target());
    params.n_rounds = 1;
    let fit = params.check().unwrap();
    let plan = fit.plan(N_ITEMS, target(), adjacency).unwrap();
    let features = features();
    let prior = FeaturePrior::new(&features, PriorVariances::for_likes(&features)).unwrap();
    Release(Box::new(move |table| {
        let noise = &mut NoiseSource::insecure_seeded(5);
        let mut sums = Vec::new();
        observed(&fit.with(&prior), table, &plan, noise, |seen| {
            record("am-implicit", seen, &mut sums);
        })
        .unwrap();
        sums
    }))
}

fn record(fit: &str, observed: &Observed<'_>, sums: &mut Vec<Sums>) {
    sums.extend(look(observed).into_iter().map(|seen| Sums {
        name: format!("{fit}: {}", seen.label),
        steps: seen.integers.iter().map(|&z| z as f64).collect(),
        weights: vec![1; seen.integers.len()],
        l2_bound: seen.l2_bound,
    }));
}
