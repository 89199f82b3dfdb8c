//! Baselines for private personalization. Everything here is computed from private data and stays
//! with the operator.

use chacha20::ChaCha20Rng;
use dp_accounting::{Budget, Ledger, Plan, Spend};
use dp_core::{Adjacency, ApproxDp};
use dp_data::SplitUser;
use dp_mechanism::NoiseSource;
use dp_personalize::{
    LevelSums, NonPrivateAltMin, PersonalModel, PriorVotes, Provenance, SharedParts,
    SingleModelParams, Subspace, Trainer, UserPrior, WeighedFit, own_data_model, zero_model,
};
use rand::{RngExt, SeedableRng};
use rayon::prelude::*;

use super::inputs::Inputs;
use super::methods::{MethodName, UserErrors, scored};
use super::users::{OwnFit, Personal, Users};
use crate::error::Result;

/// Number of steps of alternating minimisation without noise.
const NON_PRIVATE_STEPS: usize = 5;

/// Models of the methods that learn from many users; none if one could not be computed.
pub struct Baselines {
    single: Option<PersonalModel>,
    private: Subspace,
    non_private: Option<Subspace>,
    /// The whole space, for a user who learns alone.
    everything: Subspace,
    random: Subspace,
}

/// A separate budget, for measurements that release nothing.
///
/// # Errors
/// When the plan cannot be paid for.
pub fn reserve_in_memory(plan: &Plan) -> Result<Vec<Spend>> {
    let budget = Budget::new(plan.target(), plan.adjacency())?;
    Ok(Ledger::in_memory("measured, not released", budget)?.reserve(plan)?)
}

impl Baselines {
    /// The single model has the same target in a separate account: it is measured and discarded.
    ///
    /// # Errors
    /// When a baseline cannot be trained.
    pub fn new(
        train: &Users,
        private: &Subspace,
        fit: Option<WeighedFit>,
        plan: &Plan,
        random_seed: u64,
        noise: &mut NoiseSource,
    ) -> Result<Self> {
        let (dim, rank) = (private.dim(), private.rank());
        let non_private = NonPrivateAltMin {
            rank,
            n_rounds: NON_PRIVATE_STEPS,
        };
        let everything = whole_space(dim)?;
        Ok(Self {
            // whether these can be solved depends on the data, so a failure must not be visible
            single: single_model(train, dim, plan.target(), plan.adjacency(), noise).ok(),
            private: private.clone(),
            non_private: non_private.fit(train.samples()).ok().map(|subspace| {
                // of exact votes, where the run released noisy ones
                let prior = private.user_prior().zip(fit).map(|(prior, fit)| {
                    let levels = prior.levels().and(LevelSums::non_private(train.samples()));
                    let votes = PriorVotes {
                        fit,
                        subspace: &subspace,
                        levels,
                        is_bounded: prior.spreads().is_some(),
                    };
                    votes.non_private(train.samples())
                });
                subspace.with_user_prior(prior)
            }),
            everything,
            random: random_subspace(dim, rank, random_seed)?
                .with_user_prior(private.user_prior().cloned()),
        })
    }

    /// One user's models in the order of [`MethodName::ALL`].
    fn models(&self, users: &Users, user: usize, local: &OwnFit) -> [Option<Personal>; 7] {
        let dim = self.private.dim();
        let fit = |subspace: &Subspace| users.fit(user, local, subspace);
        // without own rows, the released mean of users' levels is all that anybody knows
        let levels = self.private.user_prior().and_then(UserPrior::levels);
        let usual = levels.filter(|_| !users.has_rows(user));
        let usual = usual.map_or(0.0, |levels| levels.mean);
        MethodName::ALL.map(|method| {
            let model = match method {
                MethodName::OwnMean => users.own_mean(user, &zero_model(dim)),
                MethodName::OwnData => users.personal(user, &own_data_model(users.rows(user), dim)),
                MethodName::OwnRidge => match local {
                    OwnFit::Penalised(_) => fit(&self.everything),
                    OwnFit::Weighed(own) => users.weighed(user, own, &SharedParts::default()),
                },
                MethodName::RandomSubspace => return Some(fit(&self.random)),
                MethodName::SingleModel => users.personal(user, self.single.as_ref()?),
                MethodName::Private => return Some(fit(&self.private)),
                MethodName::NonPrivate => return Some(fit(self.non_private.as_ref()?)),
            };
            Some(model.shifted(usual))
        })
    }
}

/// The whole space, for users who learn alone.
///
/// # Errors
/// When there are too many dimensions.
pub fn whole_space(dim: usize) -> Result<Subspace> {
    let mut identity = vec![0.0; dim * dim];
    identity.iter_mut().step_by(dim + 1).for_each(|i| *i = 1.0);
    let provenance = Provenance::NonPrivate;
    Ok(Subspace::spanned_by(dim, dim, &identity, provenance)?)
}

/// The same subspace for every user.
fn random_subspace(dim: usize, rank: usize, seed: u64) -> Result<Subspace> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    // the sum of twelve uniform numbers is close enough to normal for a direction
    let mut normal = || (0..12).map(|_| rng.random::<f64>() - 0.5).sum::<f64>();
    let columns: Vec<f64> = (0..dim * rank).map(|_| normal()).collect();
    Ok(Subspace::spanned_by(
        dim,
        rank,
        &columns,
        Provenance::NonPrivate,
    )?)
}

fn single_model(
    train: &Users,
    dim: usize,
    target: ApproxDp,
    adjacency: Adjacency,
    noise: &mut NoiseSource,
) -> Result<PersonalModel> {
    // public bounds: features and labels that were mapped to -1 to 1
    let params = SingleModelParams {
        design_clip: (dim as f64).sqrt(),
        label_clip: 1.0,
    };
    let single = params.check()?;
    let plan = single.plan(dim, target, adjacency)?;
    let fitted = single.fit(train.samples(), &plan, reserve_in_memory(&plan)?, noise)?;
    Ok(fitted.model)
}

/// Every user's errors on their test rows; `users` are those of `split`, in its order.
///
/// # Errors
/// When the data do not fit the inputs, or a fit fails.
pub fn errors_of_users(
    inputs: &Inputs,
    users: &Users,
    split: &[SplitUser],
    baselines: &Baselines,
) -> Result<Vec<UserErrors>> {
    let local = inputs.local_fit()?;
    let n_features = inputs.features.len();
    let of_user = |(at, user): (usize, &SplitUser)| {
        let mut measured = UserErrors::none(user, n_features);
        let models = baselines.models(users, at, &local);
        for (place, model) in models.iter().enumerate() {
            if let Some(model) = model {
                (measured.errors[place], measured.scores[place]) =
                    scored(inputs, model, &user.test);
            }
        }
        measured
    };
    Ok(split.par_iter().enumerate().map(of_user).collect())
}

/// The same for personal fits in one subspace, and no other method.
///
/// # Errors
/// When the data do not fit the inputs, or a fit fails.
pub fn errors_in_subspace(
    inputs: &Inputs,
    users: &Users,
    split: &[SplitUser],
    subspace: &Subspace,
) -> Result<Vec<UserErrors>> {
    let local = inputs.local_fit()?;
    let n_features = inputs.features.len();
    let of_user = |(at, user): (usize, &SplitUser)| {
        let model = users.fit(at, &local, subspace);
        let (error, _) = scored(inputs, &model, &user.test);
        let is_own = |method| method == MethodName::Private;
        UserErrors {
            errors: MethodName::ALL.map(|method| error.filter(|_| is_own(method))),
            ..UserErrors::none(user, n_features)
        }
    };
    Ok(split.par_iter().enumerate().map(of_user).collect())
}
