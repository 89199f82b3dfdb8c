//! Predictors, each trained at one epsilon.

use dp_accounting::{Budget, Ledger, Plan, Spend};
use dp_core::{Adjacency, ApproxDp, Interactions, Private};
use dp_mechanism::{NoiseSource, Trainer};
use dp_multitask::{FactorizationParams, LocalBias};
use dp_pubfeat::{
    AmResidualSspParams, AmSspParams, Descent, EncoderDescent, FeaturePrior, ItemFeatures,
    ItemFeaturesBuilder, LinearEncoder, Optimiser, PriorVariances, ProblemSetup, PublicEncoder,
    StatisticsLearner, UserStep,
};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

use crate::Result;
use crate::data::is_new;

/// What a method has to predict.
pub(crate) struct Task<'a> {
    pub(crate) train: &'a Private<Interactions>,
    pub(crate) features: &'a ItemFeatures,
    /// Whether new items are publicly known to have no training ratings.
    pub(crate) without_new: bool,
    pub(crate) target: ApproxDp,
    pub(crate) seed: u64,
}

/// Predicted rating of a user for an item.
pub(crate) type Predictor<'a> = Box<dyn Fn(usize, usize) -> f64 + 'a>;

const ADJACENCY: Adjacency = Adjacency::AddRemoveUser;
const USER_MEAN: LocalBias = LocalBias {
    center: 3.5,
    shrinkage: 5.0,
};

impl<'a> Task<'a> {
    pub(crate) fn predictor(&self, method: &str) -> Result<Predictor<'a>> {
        let users = self.train.expose();
        match method {
            "user-mean" => Ok(Box::new(|user, _| {
                USER_MEAN.center + USER_MEAN.of(users.user(user).values())
            })),
            "adadpals" => self.factors(FactorizationParams::adadpals_for_target(self.target)),
            // users have one set of penalties, as with the other methods
            "pooled" => self.factors(
                FactorizationParams::for_target(self.target)
                    .with_rating_range(1.0, 5.0)
                    .with_common_fold_in(),
            ),
            "am-ssp" => self.am_ssp(),
            _ => self.rounds(method),
        }
    }

    fn noise(&self) -> NoiseSource {
        NoiseSource::insecure_seeded(self.seed)
    }

    /// With item ids alone, without features.
    fn factors(&self, mut params: FactorizationParams) -> Result<Predictor<'a>> {
        params.init_seed = self.seed;
        let fit = params.check()?;
        let plan = fit.plan(self.features.n_items(), self.target, ADJACENCY)?;
        let spends = pay(&plan)?;
        let fitted = fit.fit(self.train, &plan, spends, &mut self.noise())?;
        let personal = fitted.model.fold_in_all(self.train)?.into_exposed();
        Ok(Box::new(move |user, item| {
            fitted.model.predict(&personal[user], item)
        }))
    }

    /// Residual rounds: `features`, `id-only`, or features without a part of them.
    fn rounds(&self, method: &str) -> Result<Predictor<'a>> {
        let mut params = AmResidualSspParams::for_target(self.target);
        params.init_seed = self.seed;
        let fit = params.check()?;
        let variances = variances(self.features, method)?;
        let new = (0_u32..).take(self.features.n_items());
        let new = new.filter(|item| self.without_new && is_new(*item));
        let prior = FeaturePrior::new(self.features, variances)?.with_unrated(new)?;
        let plan = fit.plan(prior.n_items(), self.target, ADJACENCY)?;
        let fitted = fit
            .with(prior)
            .fit(self.train, &plan, pay(&plan)?, &mut self.noise())?;
        let users = self.train.expose().users();
        let personal = users.map(|row| fitted.model.fold_in(row));
        let personal: Vec<_> = personal.collect::<dp_pubfeat::Result<_>>()?;
        Ok(Box::new(move |user, item| {
            fitted.model.predict(&personal[user], item)
        }))
    }

    /// The published form, with a matrix for each item and a linear encoder, and settings tuned for
    /// it.
    fn am_ssp(&self) -> Result<Predictor<'a>> {
        const DIM: usize = 4;
        let user_step = UserStep {
            label_center: 3.5,
            offset_shrinkage: Some(5.0),
            l2_penalty: 5.0,
        };
        let params = AmSspParams {
            matrix_share: 0.3,
            ..AmSspParams::new(ProblemSetup::new(DIM, 1.0), user_step, 5)
        };
        let fit = params.check()?;
        let plan = fit.plan(self.features.n_items(), self.target, ADJACENCY)?;
        let mut rng = ChaCha20Rng::seed_from_u64(self.seed);
        let features = with_unit_categories(self.features)?.with_unit_rows();
        let mut encoder = LinearEncoder::random(features.into(), DIM, &mut rng)?;
        encoder.parameters_mut().iter_mut().for_each(|t| *t *= 10.0);
        let descent = Descent::new(100, Optimiser::Adam { rate: 0.03 });
        let learner = EncoderDescent::new(encoder, descent, rng)?;
        let fitted = fit
            .with(learner)
            .fit(self.train, &plan, pay(&plan)?, &mut self.noise())?;
        let vectors = fitted.model.item_vectors()?;
        let users = self.train.expose().users();
        let personal = users.map(|row| user_step.fold_in(&vectors, DIM, row));
        let personal: Vec<_> = personal.collect::<dp_pubfeat::Result<_>>()?;
        Ok(Box::new(move |user, item| {
            personal[user].predict(&vectors[item * DIM..][..DIM])
        }))
    }
}

/// Scales each category's weights of an item to norm 1, however many features the item has there.
fn with_unit_categories(features: &ItemFeatures) -> Result<ItemFeatures> {
    let n_categories = features.n_categories();
    let sizes: Vec<usize> = (0..n_categories)
        .map(|c| features.category(c).len())
        .collect();
    let mut builder = ItemFeaturesBuilder::new(features.n_items(), &sizes)?;
    for item in 0..features.n_items() {
        for category in 0..n_categories {
            let own: Vec<_> = features.item_category(item, category).collect();
            let norm = own.iter().map(|(_, w)| w * w).sum::<f64>().sqrt();
            for (feature, weight) in own {
                builder.push(u32::try_from(item)?, feature, weight / norm)?;
            }
        }
    }
    Ok(builder.build())
}

fn pay(plan: &Plan) -> Result<Vec<Spend>> {
    let budget = Budget::new(plan.target(), ADJACENCY)?;
    Ok(Ledger::in_memory("measurement", budget)?.reserve(plan)?)
}

/// Prior variances with one part left out, whose variance goes to the item's own part.
fn variances(features: &ItemFeatures, method: &str) -> Result<PriorVariances> {
    let mut variances = PriorVariances::for_features(features);
    let n = variances.categories.len();
    let (categories, popularity) = match method {
        "features" => (0..0, false),
        "no-popularity" => (0..0, true),
        "no-genres" => (0..2, false),
        "no-credits" => (2.min(n)..n, false),
        "id-popularity" => (0..n, false),
        "id-only" => (0..n, true),
        _ => return Err(format!("no method `{method}`").into()),
    };
    for variance in &mut variances.categories[categories] {
        variances.own += std::mem::take(variance);
    }
    if popularity {
        variances.own += std::mem::take(&mut variances.popularity);
    }
    Ok(variances)
}
