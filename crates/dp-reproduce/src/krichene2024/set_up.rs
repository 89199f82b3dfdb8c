//! Synthetic examples with public features of items.

use dp_data::{GeneratedLabels, PublicFeatureData, PublicFeatureTask};
use dp_pubfeat::{FeatureKernel, ItemFeatures, ItemFeaturesBuilder};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

use super::super::{ReproduceArgs, sizes};
use dp_personal::error::{Error, Result};

/// Sizes that flags can change, and the selected cells.
pub(super) struct SetUp {
    task: PublicFeatureTask,
    pub(super) n_features: Vec<usize>,
    pub(super) epsilons: Vec<f64>,
}

const FEATURES: [usize; 3] = [500, 2000, 8000];
const EPSILONS: [f64; 3] = [1.0, 5.0, 20.0];
const KNOWN: &str = "n_users, n_items, items_per_user, label_noise, n_features, epsilon";

impl SetUp {
    pub(super) fn new(args: &ReproduceArgs) -> Result<Self> {
        let mut task = PublicFeatureTask::new(FEATURES[0]);
        let (mut n_features, mut epsilons) = (FEATURES.to_vec(), EPSILONS.to_vec());
        if args.quick {
            (task.n_users, task.n_items, task.items_per_user) = (1000, 100, 20);
            (n_features, epsilons) = (vec![200, 800], vec![5.0]);
        }
        sizes::apply(&args.size, KNOWN, |key, value| {
            match key {
                "n_users" => task.n_users = sizes::whole(value),
                "n_items" => task.n_items = sizes::whole(value),
                "items_per_user" => task.items_per_user = sizes::whole(value),
                "label_noise" => task.labels = GeneratedLabels::Values { noise: value },
                "n_features" => n_features = vec![sizes::whole(value)],
                "epsilon" => epsilons = vec![value],
                _ => return false,
            }
            true
        })?;
        Ok(Self {
            task,
            n_features,
            epsilons,
        })
    }

    /// Whether these are the sizes for which reference values are known.
    pub(super) fn is_whole(&self) -> bool {
        self.task == PublicFeatureTask::new(FEATURES[0])
    }

    pub(super) fn make(
        &self,
        n_features: usize,
        labels: Option<GeneratedLabels>,
        seed: u64,
    ) -> Result<SyntheticData> {
        let task = PublicFeatureTask {
            n_features,
            labels: labels.unwrap_or(self.task.labels),
            ..self.task
        };
        SyntheticData::new(&task, seed)
    }
}

/// One data set.
pub(super) struct SyntheticData {
    pub(super) data: PublicFeatureData,
    /// Rows of norm 1.
    pub(super) features: ItemFeatures,
    pub(super) kernel: FeatureKernel,
}

impl SyntheticData {
    fn new(task: &PublicFeatureTask, seed: u64) -> Result<Self> {
        let rng = &mut ChaCha20Rng::seed_from_u64(seed);
        let data = task.generate(rng).map_err(size_error)?;
        let mut builder = ItemFeaturesBuilder::new(task.n_items, &[task.n_features])?;
        for &(item, feature) in &data.features {
            builder.push(item, feature, 1.0)?;
        }
        let features = builder.build().with_unit_rows();
        Ok(Self {
            data,
            kernel: FeatureKernel::new(&features, 0.0)?,
            features,
        })
    }

    pub(super) fn n_items(&self) -> usize {
        self.features.n_items()
    }
}

/// A size out of range is an argument error, not a file error.
fn size_error(error: dp_data::Error) -> Error {
    match error {
        dp_data::Error::Param(param) => param.into(),
        other => other.into(),
    }
}
