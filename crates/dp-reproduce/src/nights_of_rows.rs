//! `nights-subspace`: a shared subspace that is learned every night on one lifetime budget, and in other ways to divide one.

use dp_accounting::{Budget, Ledger, Pace, Plan, gdp};
use dp_core::{ApproxDp, UserSamples, UserSamplesBuilder};
use dp_data::{SharedSubspace, SubspaceData};
use dp_mechanism::{NoiseSource, PacedLifetime, ReleaseList, Run, Trainer as _};
use dp_personalize::{
    GroundTruth, LocalFit, NightlySubspace, NightlySubspaceParams, NonPrivateAltMin, Provenance,
    ResidualAltMinParams, Subspace, SubspaceState, own_data_model,
};
use rand::{RngExt as _, SeedableRng};
use rand_chacha::ChaCha20Rng;

use super::ReproduceArgs;
use super::calibration::{DELTA, pay};
use super::nights::{ADJACENCY, Arrival, Measured, SEED_STRIDE, Setting, rows};
use super::report::Row;
use dp_personal::error::{Error, Result};

const METRIC: &str = "population MSE";

pub(super) fn run(args: &ReproduceArgs) -> Result<Vec<Row>> {
    let setting = Setting::new(args, Arrival::Even, 365)?;
    let set_up = match args.quick {
        true => SharedSubspace {
            n_users: 2_000,
            dim: 12,
            ..SharedSubspace::section_6()
        },
        false => SharedSubspace::section_6(),
    };
    let mut measured = Vec::new();
    for seed in 0..args.seeds {
        let seed = args.seed_base.wrapping_add(seed);
        let data = set_up.generate(&mut ChaCha20Rng::seed_from_u64(seed))?;
        measured.push(one_seed(&setting, &set_up, &data, seed)?);
    }
    Ok(rows(&setting, "made: section 6", METRIC, &measured))
}

fn one_seed(
    setting: &Setting,
    set_up: &SharedSubspace,
    data: &SubspaceData,
    seed: u64,
) -> Result<Measured> {
    let (rank, arrivals) = (set_up.rank, arrivals(setting, data, seed));
    let mut seeds = (1..).map(|at| seed.wrapping_mul(SEED_STRIDE).wrapping_add(at << 12));
    let measured = setting.measured();
    let mse = |subspace: &Subspace| -> Result<f64> {
        let truth = GroundTruth {
            coefficients: data.coefficients.as_slice(),
            feature_variances: data.feature_variances.as_slice(),
        };
        Ok(truth.subspace_mse(subspace, &LocalFit::default(), &data.samples)?)
    };
    let mut found = Measured::new();
    for &epsilon in &setting.epsilons {
        let seed = seeds.next().unwrap_or_default();
        let mut lifetime = Lifetime::new(epsilon, set_up, setting, seed)?;
        for night in 0..setting.nights {
            let subspace = lifetime.night(night, &table(data, &arrivals, night)?)?;
            if measured.contains(&night) {
                found.push(("paced", Some(epsilon), night, mse(&subspace)?));
            }
        }
    }
    if setting.is_brief {
        return Ok(found);
    }
    let fit = ResidualAltMinParams::new(rank)
        .check()
        .map_err(Error::from)?;
    for &night in &measured {
        for &epsilon in &setting.epsilons {
            let mu = gdp::mu_for(ApproxDp::target(epsilon, DELTA)?)?;
            for (method, part) in [
                ("one run", 1.0),
                (
                    "divided over all nights",
                    f64::from(setting.nights).sqrt().recip(),
                ),
                (
                    "runs on nights 1, 2, 4, ...",
                    f64::from(setting.nights.ilog2() + 1).sqrt().recip(),
                ),
            ] {
                let of = match method {
                    "runs on nights 1, 2, 4, ..." => (1 << (night + 1).ilog2()) - 1,
                    _ => night,
                };
                let samples = table(data, &arrivals, of)?;
                let target = ApproxDp::target(gdp::epsilon(mu * part, DELTA), DELTA)?;
                let plan = fit.plan(set_up.dim, target, ADJACENCY)?;
                let mut noise = NoiseSource::insecure_seeded(seeds.next().unwrap_or_default());
                let fitted = fit.fit(&samples, &plan, pay(&plan, "nights")?, &mut noise)?;
                found.push((method, Some(epsilon), night, mse(&fitted.model)?));
            }
        }
        let samples = table(data, &arrivals, night)?;
        let non_private = NonPrivateAltMin { rank, n_rounds: 5 }.fit(&samples)?;
        found.push(("no privacy", None, night, mse(&non_private)?));
    }
    let last = setting.nights - 1;
    let truth = Subspace::spanned_by(set_up.dim, rank, &data.basis, Provenance::NonPrivate)?;
    found.push(("true subspace", None, last, mse(&truth)?));
    let own = data
        .samples
        .users()
        .map(|rows| own_data_model(rows, set_up.dim));
    let truth = GroundTruth {
        coefficients: data.coefficients.as_slice(),
        feature_variances: data.feature_variances.as_slice(),
    };
    found.push(("own data", None, last, truth.population_mse(own)?));
    Ok(found)
}

/// The night on which each user's rows are first there.
fn arrivals(setting: &Setting, data: &SubspaceData, seed: u64) -> Vec<Vec<u32>> {
    let (mut coins, nights) = (
        ChaCha20Rng::seed_from_u64(seed ^ SEED_STRIDE),
        setting.nights,
    );
    let users = data.samples.users().map(|rows| {
        let is_first = setting.arrival == Arrival::Half && coins.random_bool(0.5);
        let first = match is_first {
            true => 0,
            false => coins.random_range(0..nights),
        };
        let each = rows.iter().map(|_| match setting.arrival {
            Arrival::Adding => coins.random_range(first..nights),
            _ => first,
        });
        each.collect()
    });
    users.collect()
}

/// The rows that are there on a night, under the users' own ids.
fn table(data: &SubspaceData, arrivals: &[Vec<u32>], night: u32) -> Result<UserSamples> {
    let users = || (0_u128..).zip(data.samples.users()).zip(arrivals);
    let (n_features, max_rows) = (data.samples.n_features(), data.samples.max_rows());
    let mut builder =
        UserSamplesBuilder::new(n_features, max_rows).map_err(dp_data::Error::from)?;
    let mut at = 0;
    for ((user, rows), arrivals) in users() {
        let mut is_there = false;
        for ((x, y), _) in rows
            .iter()
            .zip(arrivals)
            .filter(|(_, first)| **first <= night)
        {
            builder.push(at, x, y).map_err(dp_data::Error::from)?;
            is_there = true;
        }
        if is_there {
            builder.set_id(at, 1 << 127 | user);
            at += 1;
        }
    }
    Ok(builder.build().0)
}

/// A lifetime, night after night.
struct Lifetime {
    fit: NightlySubspace,
    plan: Plan,
    folder: tempfile::TempDir,
    id: String,
    kept: Option<SubspaceState>,
    seed: u64,
}

impl Lifetime {
    fn new(epsilon: f64, set_up: &SharedSubspace, setting: &Setting, seed: u64) -> Result<Self> {
        let params = NightlySubspaceParams {
            most_nights: setting.nights,
            ..NightlySubspaceParams::new(set_up.rank)
        };
        let fit = params.check()?;
        let plan = fit.plan(set_up.dim, ApproxDp::target(epsilon, DELTA)?, ADJACENCY)?;
        let folder = tempfile::tempdir()
            .map_err(|e| Error::read(std::path::Path::new("a folder for a lifetime"), e))?;
        let budget = Budget::new(plan.target(), ADJACENCY)?;
        let ledger = Ledger::create(folder.path().join("ledger"), "nights", budget)?;
        let pace = Pace::new(0.4, setting.nights)?;
        let begun = PacedLifetime::begin(ledger, &plan, pace, folder.path().join("first-seen"));
        let id = begun.map_err(Error::from)?.release_id().to_owned();
        Ok(Self {
            fit,
            plan,
            folder,
            id,
            kept: None,
            seed,
        })
    }

    fn night(&mut self, number: u32, samples: &UserSamples) -> Result<Subspace> {
        let at = |name: &str| self.folder.path().join(name);
        let ledger = Ledger::open(at("ledger"), "nights", ADJACENCY)?;
        let mut lifetime = PacedLifetime::resume(ledger, self.id.clone(), at("first-seen"))?;
        let list = ReleaseList::open(at("list"), "nights", &self.plan)?;
        let noise = &mut NoiseSource::insecure_seeded(self.seed.wrapping_add(number.into()));
        let run = Run::nightly(&self.plan, &mut lifetime, number, noise)?;
        let fit = match self.kept.take() {
            Some(kept) => self.fit.clone().continuing(kept),
            None => self.fit.clone(),
        };
        let made = fit.run(samples, run.listed_in(list))?.model;
        self.kept = Some(made.state);
        Ok(made.subspace)
    }
}
