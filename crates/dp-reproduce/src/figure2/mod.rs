//! `jain2021-figure2`: linear regressions whose coefficients share a subspace.

mod cell;
mod selection;

use dp_core::Adjacency;
use dp_data::{SharedSubspace, SubspaceData};
use dp_mechanism::NoiseSource;
use dp_personalize::{
    GroundTruth, LocalFit, NonPrivateAltMin, Provenance, Subspace, own_data_model, zero_model,
};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use serde_json::{Map, json};

use self::cell::cells;
use self::selection::select;
use super::report::Row;
use super::{ReproduceArgs, sizes};
use dp_personal::error::{Error, Result};

const DELTA: f64 = 1e-6;
const METRIC: &str = "population MSE";
/// Decay of the feature variances in the non-isotropic check.
const DECAY: f64 = 0.5;
/// Distance between the seeds of different repetitions.
const SEED_STRIDE: u64 = 1 << 20;

pub(super) fn run(args: &ReproduceArgs) -> Result<Vec<Row>> {
    let set_up = set_up(args)?;
    let mut by_seed = Vec::new();
    for seed in (0..args.seeds).map(|s| args.seed_base.wrapping_add(s)) {
        by_seed.push(Measured::new(&set_up, args.quick, seed)?);
    }
    rows_of(&by_seed)
}

fn set_up(args: &ReproduceArgs) -> Result<SharedSubspace> {
    let mut set_up = SharedSubspace::section_6();
    if args.quick {
        (set_up.n_users, set_up.dim) = (2_000, 12);
    }
    let known = "n_users, rows_per_user, dim, rank, label_noise";
    sizes::apply(&args.size, known, |key, value| {
        match key {
            "n_users" => set_up.n_users = sizes::whole(value),
            "rows_per_user" => set_up.rows_per_user = sizes::whole(value),
            "dim" => set_up.dim = sizes::whole(value),
            "rank" => set_up.rank = sizes::whole(value),
            "label_noise" => set_up.label_noise = value,
            _ => return false,
        }
        true
    })?;
    Ok(set_up)
}

/// Results of one seed.
struct Measured {
    /// Name, decay of the features, value.
    baselines: Vec<(&'static str, f64, f64)>,
    /// In the order of the cells.
    private: Vec<f64>,
    /// Squared distance of the subspace selected by the exponential mechanism, for each
    /// neighbouring relation.
    selected: [f64; 2],
}

impl Measured {
    fn new(set_up: &SharedSubspace, quick: bool, seed: u64) -> Result<Self> {
        let cells = cells();
        let (mut baselines, mut private) = (Vec::new(), vec![f64::NAN; cells.len()]);
        for decay in [0.0, DECAY] {
            let set_up = SharedSubspace {
                feature_decay: decay,
                ..*set_up
            };
            let data = generate(&set_up, seed)?;
            baselines.extend(measure_baselines(&set_up, &data)?);
            let mine = (0..).zip(&cells).zip(&mut private);
            for ((at, cell), value) in mine.filter(|((_, c), _)| c.decay.total_cmp(&decay).is_eq())
            {
                let seed = seed.wrapping_mul(SEED_STRIDE).wrapping_add(at);
                *value = cell.measure(&set_up, &data, NoiseSource::insecure_seeded(seed))?;
            }
        }
        let selected = [Adjacency::AddRemoveUser, Adjacency::ReplaceUser];
        let [add, replace] = selected.map(|adjacency| select(adjacency, quick, seed));
        Ok(Self {
            baselines,
            private,
            selected: [add?, replace?],
        })
    }
}

fn generate(set_up: &SharedSubspace, seed: u64) -> Result<SubspaceData> {
    let made = set_up.generate(&mut ChaCha20Rng::seed_from_u64(seed));
    made.map_err(|error| match error {
        // a size out of range is an argument error, not a file error
        dp_data::Error::Param(param) => param.into(),
        other => Error::from(other),
    })
}

const fn truth(data: &SubspaceData) -> GroundTruth<'_> {
    GroundTruth {
        coefficients: data.coefficients.as_slice(),
        feature_variances: data.feature_variances.as_slice(),
    }
}

fn subspace_mse(data: &SubspaceData, subspace: &Subspace) -> Result<f64> {
    Ok(truth(data).subspace_mse(subspace, &LocalFit::default(), &data.samples)?)
}

fn measure_baselines(
    set_up: &SharedSubspace,
    data: &SubspaceData,
) -> Result<Vec<(&'static str, f64, f64)>> {
    let (dim, rank) = (set_up.dim, set_up.rank);
    let true_one = Subspace::spanned_by(dim, rank, &data.basis, Provenance::NonPrivate)?;
    let non_private = NonPrivateAltMin { rank, n_rounds: 5 }.fit(&data.samples)?;
    let own = data.samples.users().map(|rows| own_data_model(rows, dim));
    let zero = data.samples.users().map(|_| zero_model(dim));
    Ok(vec![
        (
            "true-subspace",
            set_up.feature_decay,
            subspace_mse(data, &true_one)?,
        ),
        (
            "non-private",
            set_up.feature_decay,
            subspace_mse(data, &non_private)?,
        ),
        (
            "own-data",
            set_up.feature_decay,
            truth(data).population_mse(own)?,
        ),
        (
            "zero",
            set_up.feature_decay,
            truth(data).population_mse(zero)?,
        ),
    ])
}

fn rows_of(by_seed: &[Measured]) -> Result<Vec<Row>> {
    let of = |pick: &dyn Fn(&Measured) -> f64| by_seed.iter().map(pick).collect::<Vec<_>>();
    let mut rows = Vec::new();
    let baselines = by_seed.first().map_or(&[][..], |m| &m.baselines);
    for (at, &(name, decay, _)) in baselines.iter().enumerate() {
        let params = Map::from_iter([("feature_decay".to_owned(), json!(decay))]);
        rows.push(Row::over_seeds(
            name,
            None,
            params,
            METRIC,
            &of(&|m| m.baselines[at].2),
        ));
    }
    for (at, cell) in cells().into_iter().enumerate() {
        let (epsilon, values) = (Some(cell.epsilon), of(&|m| m.private[at]));
        rows.push(Row::over_seeds(
            cell.name(),
            epsilon,
            cell.params()?,
            METRIC,
            &values,
        ));
    }
    for (at, neighbours) in ["add-remove", "replace"].into_iter().enumerate() {
        let params = Map::from_iter([
            ("accounting".to_owned(), json!(neighbours)),
            ("candidates".to_owned(), json!(972)),
        ]);
        let values = of(&|m| m.selected[at]);
        rows.push(Row::over_seeds(
            "exponential",
            Some(1.0),
            params,
            "squared distance",
            &values,
        ));
    }
    Ok(rows)
}
