//! Every trainer of this crate with settings that reach each of its releases, on small made data.

use dp_multitask::{
    Adjacency, ApproxDp, BudgetAllocation, Error, FactorModel, FactorizationParams, Feedback,
    GradientClip, GradientRounds, Gramian, Interactions, InteractionsBuilder, ItemGramian,
    ItemUpdate, Iterate, MatrixFactorization, MultiTaskNoisyGd, MultiTaskNoisyGdParams,
    MultiTaskSsp, MultiTaskSspParams, NoisyCounts, PooledMatrices, Private, RecordSampling,
    RegressionLoss, ResidualRounds, ResidualSsp, ResidualSspParams, ScoreModel, SspSolve, StepSize,
    TaskCounts, TaskModels, TaskSetup, Trainer, TunedModel, Tuning, TuningParams,
};

pub(crate) const ADJACENCY: Adjacency = Adjacency::AddRemoveUser;
pub(crate) const N_ITEMS: usize = 30;
pub(crate) const DIM: usize = 3;

pub(crate) fn target() -> ApproxDp {
    ApproxDp::target(8.0, 1e-5).unwrap()
}

/// Users with features and half-star ratings of some items; a few have nothing.
pub(crate) fn users() -> Private<Interactions> {
    let mut state = 7_u32;
    let mut draw = move |n: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) % n
    };
    let mut builder = InteractionsBuilder::new(N_ITEMS).with_feature_dim(DIM);
    for user in 0..150 {
        let features = [(); DIM].map(|()| draw(200) as f32 / 100.0 - 1.0);
        builder.set_features(user, &features).unwrap();
        for _ in 0..draw(15) {
            let item = draw(30).min(draw(30));
            let stars = (draw(5) + user % 3 + 2) as f32 / 2.0;
            builder.push(user, item, stars).unwrap();
        }
    }
    builder.ensure_users(152);
    Private::new(builder.build().0)
}

/// Nobody, in the same public shape.
pub(crate) fn nobody() -> Private<Interactions> {
    let builder = InteractionsBuilder::new(N_ITEMS).with_feature_dim(DIM);
    Private::new(builder.build().0)
}

/// What makes two models equal.
pub(crate) trait Numbers {
    fn numbers(&self) -> Vec<f64>;

    fn bits(&self) -> Vec<u64> {
        self.numbers().iter().map(|x| x.to_bits()).collect()
    }
}

fn with_counts(numbers: &[f64], counts: Option<&NoisyCounts>) -> Vec<f64> {
    let counts = counts.map_or(&[][..], NoisyCounts::values);
    [numbers, counts].concat()
}

impl Numbers for FactorModel {
    fn numbers(&self) -> Vec<f64> {
        with_counts(self.item_factors(), self.counts())
    }
}

impl Numbers for TunedModel {
    fn numbers(&self) -> Vec<f64> {
        let model = [self.model.item_factors(), &self.scores].concat();
        with_counts(&model, self.model.counts())
    }
}

impl Numbers for TaskModels {
    fn numbers(&self) -> Vec<f64> {
        with_counts(self.coefficients(), self.counts())
    }
}

/// Something that holds for a trainer.
pub(crate) trait Check {
    fn check<T>(&mut self, name: &str, trainer: &T)
    where
        T: Trainer<Data = Private<Interactions>, Error = Error> + Sync,
        T::Model: Numbers;
}

pub(crate) fn for_each_trainer(check: &mut impl Check) {
    for (name, trainer) in factorizations() {
        check.check(name, &trainer);
    }
    for (name, trainer) in tunings() {
        check.check(name, &trainer);
    }
    for (name, trainer) in statistics() {
        check.check(name, &trainer);
    }
    for (name, trainer) in descents() {
        check.check(name, &trainer);
    }
    for (name, trainer) in refinements() {
        check.check(name, &trainer);
    }
}

fn residual(n_statistics_rounds: usize, pull: f64) -> ItemUpdate {
    ItemUpdate::Residual(ResidualRounds {
        n_statistics_rounds,
        pull,
        ..ResidualRounds::new()
    })
}

fn implicit(item_gramian: ItemGramian, item_unobserved_weight: f64) -> FactorizationParams {
    let mut params = FactorizationParams::implicit_for_target(target());
    if let Feedback::Implicit(implicit) = &mut params.feedback {
        implicit.item_gramian = item_gramian;
        implicit.item_unobserved_weight = item_unobserved_weight;
    }
    (params.dim, params.n_rounds) = (Some(3), 2);
    params
}

/// Matrix factorisation with every item update and both kinds of feedback.
pub(crate) fn factorizations() -> Vec<(&'static str, MatrixFactorization)> {
    let ssp = FactorizationParams {
        dim: Some(3),
        n_rounds: 2,
        count_floor: 5.0,
        ..FactorizationParams::adadpals_for_target(target())
    };
    let with = |change: &dyn Fn(&mut FactorizationParams)| {
        let mut params = ssp.clone();
        change(&mut params);
        params
    };
    let pooled = Some(PooledMatrices::default());
    let plain = {
        let mut params = FactorizationParams::implicit_plain_for_target(target());
        (params.dim, params.n_rounds, params.least_head) = (Some(4), 2, 8);
        params
    };
    let all = [
        ("statistics", ssp.clone()),
        ("statistics without tastes", with(&|p| p.dim = Some(1))),
        ("length by rule", with(&|p| p.dim = None)),
        (
            "no counts, some records",
            with(&|p| {
                p.weight_exponent = 0.0;
                p.record_sampling = RecordSampling::Uniform {
                    records_per_user: 4,
                    seed: 3,
                };
            }),
        ),
        (
            "rare records of the head without biases",
            with(&|p| {
                p.score_model = ScoreModel::Plain;
                p.head_fraction = Some(0.5);
                p.record_sampling = RecordSampling::Tail {
                    records_per_user: 4,
                };
            }),
        ),
        ("pooled statistics", with(&|p| p.pooled_matrices = pooled)),
        (
            "gradients",
            with(&|p| {
                let rounds = GradientRounds::new(1.0, 3);
                p.item_update = ItemUpdate::NoisyGd(GradientRounds {
                    clip: GradientClip::PerTask,
                    ..rounds
                });
            }),
        ),
        (
            "residuals",
            with(&|p| {
                p.n_rounds = 3;
                p.item_update = residual(1, 0.5);
            }),
        ),
        (
            "pooled residuals",
            with(&|p| {
                p.n_rounds = 3;
                p.item_update = residual(2, 0.25);
                p.pooled_matrices = pooled;
            }),
        ),
        ("likes, pooled", implicit(ItemGramian::Pooled, 0.1)),
        ("likes, per item", implicit(ItemGramian::PerItem, 0.1)),
        ("likes, per item alone", implicit(ItemGramian::PerItem, 0.0)),
        ("likes without biases", plain),
    ];
    all.map(|(name, params)| (name, params.check().unwrap()))
        .into()
}

pub(crate) fn tunings() -> Vec<(&'static str, Tuning)> {
    let of = |places: [usize; 2]| {
        let all = factorizations();
        let fits = places.map(|at| all[at].1.clone()).to_vec();
        Tuning::new(fits, TuningParams::default()).unwrap()
    };
    vec![
        ("choice among ratings", of([2, 8])),
        ("choice among lists", of([9, 12])),
    ]
}

fn setup(allocation: BudgetAllocation) -> TaskSetup {
    TaskSetup {
        label_bound: 3.0,
        label_norm: 2.0,
        allocation,
        ..TaskSetup::unit_ball(DIM)
    }
}

fn released() -> TaskSetup {
    setup(BudgetAllocation::adaptive(
        0.5,
        TaskCounts::Released {
            share: 0.1,
            clip_norm: 3.0,
        },
    ))
}

pub(crate) fn statistics() -> Vec<(&'static str, MultiTaskSsp)> {
    let with = |solve| MultiTaskSspParams {
        solve,
        ..MultiTaskSspParams::new(released())
    };
    let ridge = SspSolve::Ridge {
        noise_factor: 0.5,
        l2_penalty: 1.0,
    };
    [
        ("regression: shrinkage", with(SspSolve::Shrinkage)),
        ("regression: ridge", with(ridge)),
        ("regression: pseudo-inverse", with(SspSolve::PseudoInverse)),
    ]
    .map(|(name, params)| (name, params.check().unwrap()))
    .into()
}

pub(crate) fn descents() -> Vec<(&'static str, MultiTaskNoisyGd)> {
    let huber = MultiTaskNoisyGdParams {
        loss: RegressionLoss::Huber { threshold: 0.7 },
        clip: GradientClip::PerTask,
        step_size: StepSize::Lipschitz,
        iterate: Iterate::Average,
        n_steps: 3,
        ..MultiTaskNoisyGdParams::new(setup(BudgetAllocation::equal()))
    };
    [
        (
            "regression: descent",
            MultiTaskNoisyGdParams::new(released()),
        ),
        ("regression: descent on Huber's loss", huber),
    ]
    .map(|(name, params)| (name, params.check().unwrap()))
    .into()
}

pub(crate) fn refinements() -> Vec<(&'static str, ResidualSsp)> {
    let per_task = ResidualSspParams {
        gramian: Gramian::PerTask { share: 0.3 },
        n_steps: 3,
        ..ResidualSspParams::new(setup(BudgetAllocation::equal()))
    };
    [
        (
            "regression: pooled residuals",
            ResidualSspParams::new(released()),
        ),
        ("regression: residuals per task", per_task),
    ]
    .map(|(name, params)| (name, params.check().unwrap()))
    .into()
}
