//! AM-SSP in its best form: rounds under a prior from features, on residuals of ratings or on
//! likes, with defaults by epsilon.

use std::time::Instant;

use dp_core::{Adjacency, UserRow};
use dp_mechanism::{NoiseSource, Trainer};
use dp_pubfeat::{
    AmImplicitSspParams, AmResidualSspParams, FeatureModel, FeaturePrior, LikesModel,
    PriorVariances,
};

use super::super::super::calibration::pay;
use super::data::is_new;
use super::problem::{Feedback, Model, Problem};
use dp_personal::error::Result;

const ADJACENCY: Adjacency = Adjacency::AddRemoveUser;

/// A model and the time of its fit, excluding the calibration of the noise.
pub(super) struct Timed<M> {
    pub(super) model: M,
    pub(super) seconds: f64,
}

impl Model for FeatureModel {
    fn scores(&self, user: UserRow<'_>) -> Result<Vec<f64>> {
        let personal = self.fold_in(user)?;
        let items = 0..self.n_items();
        Ok(items.map(|item| self.predict(&personal, item)).collect())
    }
}

impl Model for LikesModel {
    fn scores(&self, user: UserRow<'_>) -> Result<Vec<f64>> {
        let personal = self.fold_in(user)?;
        let items = 0..self.n_items();
        Ok(items.map(|item| self.score(&personal, item)).collect())
    }
}

/// The form that matches the kind of users' records.
pub(super) fn best(problem: &Problem<'_>, with_features: bool) -> Result<Box<dyn Model>> {
    Ok(match problem.feedback {
        Feedback::Ratings => Box::new(am_residual(problem, with_features, None)?.model),
        Feedback::Likes => Box::new(am_implicit(problem, with_features)?),
    })
}

/// Without features, their part of the variance goes to an item's own part. Items that are publicly
/// known to be new are declared as such if the problem has any.
fn prior(
    problem: &Problem<'_>,
    with_features: bool,
    mut variances: PriorVariances,
) -> Result<FeaturePrior> {
    if !with_features {
        let parts = variances.categories.iter_mut();
        for part in parts.chain([&mut variances.popularity]) {
            variances.own += std::mem::take(part);
        }
    }
    let prior = FeaturePrior::new(problem.features, variances)?;
    let items = (0_u32..).take(prior.n_items());
    let new = items.filter(|item| problem.without_new && is_new(*item));
    Ok(prior.with_unrated(new)?)
}

/// Trains on ratings, with the given number of rounds or otherwise the default.
pub(super) fn am_residual(
    problem: &Problem<'_>,
    with_features: bool,
    n_rounds: Option<usize>,
) -> Result<Timed<FeatureModel>> {
    let mut params = AmResidualSspParams::for_target(problem.target);
    params.init_seed = problem.seed;
    params.n_rounds = n_rounds.unwrap_or(params.n_rounds);
    let variances = PriorVariances::for_features(problem.features);
    let (fit, prior) = (params.check()?, prior(problem, with_features, variances)?);
    let plan = fit.plan(prior.n_items(), problem.target, ADJACENCY)?;
    let spends = pay(&plan, "ratings")?;
    let noise = &mut NoiseSource::insecure_seeded(problem.seed);
    let start = Instant::now();
    let fitted = fit.with(prior).fit(problem.train, &plan, spends, noise)?;
    Ok(Timed {
        model: fitted.model,
        seconds: start.elapsed().as_secs_f64(),
    })
}

/// Trains on likes.
fn am_implicit(problem: &Problem<'_>, with_features: bool) -> Result<LikesModel> {
    let mut params = AmImplicitSspParams::for_target(problem.target);
    params.init_seed = problem.seed;
    let variances = PriorVariances::for_likes(problem.features);
    let (fit, prior) = (params.check()?, prior(problem, with_features, variances)?);
    let plan = fit.plan(prior.n_items(), problem.target, ADJACENCY)?;
    let spends = pay(&plan, "likes")?;
    let noise = &mut NoiseSource::insecure_seeded(problem.seed);
    let fitted = fit.with(prior).fit(problem.train, &plan, spends, noise)?;
    Ok(fitted.model)
}
