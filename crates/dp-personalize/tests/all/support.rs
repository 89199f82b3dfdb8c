//! Small data sets, and fits paid from separate ledgers.

use dp_accounting::{Budget, Ledger, Plan, Spend};
use dp_core::{Adjacency, ApproxDp, UserSamples};
use dp_data::{SharedSubspace, SubspaceData};
use dp_mechanism::NoiseSource;
use dp_personalize::{
    AltMinParams, ConvexLoss, DpGdEmbedding, Embedding, Error, Fitted, GroundTruth, Initialisation,
    LocalFit, Provenance, ResidualAltMinParams, Result, RowSplit, SspEmbedding, Subspace,
    SymmetricNoise, Trainer, UserBatches,
};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

pub(crate) const DIM: usize = 6;
pub(crate) const ADJACENCIES: [Adjacency; 2] = [Adjacency::AddRemoveUser, Adjacency::ReplaceUser];

pub(crate) fn target(epsilon: f64) -> ApproxDp {
    ApproxDp::target(epsilon, 1e-6).unwrap()
}

pub(crate) fn made(n_users: usize, feature_decay: f64) -> SubspaceData {
    let set_up = SharedSubspace {
        n_users,
        dim: DIM,
        feature_decay,
        ..SharedSubspace::section_6()
    };
    set_up.generate(&mut ChaCha20Rng::seed_from_u64(1)).unwrap()
}

/// A ledger for one account of a run with this plan.
pub(crate) fn ledger(plan: &Plan, account: usize) -> Ledger {
    let budget = match plan.gdp() {
        Ok(_) => Budget::new(plan.target(), plan.adjacency()),
        Err(_) => Budget::schedule(plan.target(), plan.adjacency()),
    };
    Ledger::in_memory(&format!("test {account}"), budget.unwrap()).unwrap()
}

pub(crate) fn pay(plan: &Plan, n_accounts: usize) -> Vec<Spend> {
    let accounts = 0..n_accounts;
    let paid = accounts.map(|account| ledger(plan, account).reserve(plan).unwrap());
    paid.flatten().collect()
}

pub(crate) fn seeded() -> NoiseSource {
    NoiseSource::insecure_seeded(5)
}

/// A fit of its own data set, with seeded noise.
pub(crate) fn fit<T>(
    trainer: &T,
    samples: &UserSamples,
    goal: ApproxDp,
    adjacency: Adjacency,
) -> Result<Fitted<T::Model>>
where
    T: Trainer<Data = UserSamples, Error = Error>,
{
    let plan = trainer.plan(samples.n_features(), goal, adjacency)?;
    let spends = pay(&plan, trainer.n_accounts());
    trainer.fit(samples, &plan, spends, &mut seeded())
}

pub(crate) fn alt_min(
    settings: AltMinParams,
    samples: &UserSamples,
    goal: ApproxDp,
    adjacency: Adjacency,
) -> Result<Fitted<Subspace>> {
    fit(&settings.check()?, samples, goal, adjacency)
}

pub(crate) fn residual(
    settings: ResidualAltMinParams,
    samples: &UserSamples,
    goal: ApproxDp,
    adjacency: Adjacency,
) -> Result<Fitted<Subspace>> {
    fit(&settings.check()?, samples, goal, adjacency)
}

pub(crate) fn mse(data: &SubspaceData, subspace: &Subspace) -> f64 {
    let truth = GroundTruth {
        coefficients: &data.coefficients,
        feature_variances: &data.feature_variances,
    };
    truth
        .subspace_mse(subspace, &LocalFit::default(), &data.samples)
        .unwrap()
}

pub(crate) fn distance(data: &SubspaceData, subspace: &Subspace) -> f64 {
    let truth = Subspace::spanned_by(DIM, 2, &data.basis, Provenance::NonPrivate).unwrap();
    subspace.frobenius_distance(&truth).unwrap()
}

pub(crate) fn variants() -> Vec<AltMinParams> {
    let section_6 = || AltMinParams::section_6(2);
    let unclipped = SspEmbedding {
        design_clip: 8.0,
        label_clip: 8.0,
        ridge_factor: 0.1,
        symmetric_noise: SymmetricNoise::Isometric,
        ..SspEmbedding::section_6()
    };
    vec![
        section_6(),
        section_6().isometric(),
        AltMinParams {
            init: Initialisation::Projectors,
            ..section_6()
        },
        AltMinParams {
            rows: RowSplit::Quarters,
            ..section_6()
        },
        AltMinParams {
            batches: UserBatches::Disjoint,
            n_rounds: 3,
            ..section_6()
        },
        AltMinParams {
            init: Initialisation::Projectors,
            embedding: Embedding::Gd(DpGdEmbedding {
                loss: ConvexLoss::Huber { threshold: 1.0 },
                gradient_clip: 1.0,
                learning_rate: 0.5,
                l2_penalty: 1e-6,
            }),
            n_rounds: 4,
            ..section_6()
        },
        AltMinParams {
            embedding: Embedding::Ssp(unclipped),
            n_rounds: 3,
            ..section_6()
        },
    ]
}
