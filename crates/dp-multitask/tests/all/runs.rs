//! Every trainer's model is a function of its releases, and has the same bits as in earlier
//! versions.

use std::collections::HashMap;

use dp_mechanism::{ReleaseEntry, TrainerCheck};
use dp_multitask::{
    Budget, BudgetAllocation, Error, FactorModel, FactorizationParams, Feedback, GradientClip,
    GradientRounds, Gramian, Interactions, InteractionsBuilder, ItemGramian, ItemPrior, ItemUpdate,
    Iterate, Ledger, MatrixFactorization, MultiTaskNoisyGd, MultiTaskNoisyGdParams, MultiTaskSsp,
    MultiTaskSspParams, NoiseSource, NoisyCounts, Observer, Plan, PooledMatrices, Private,
    RecordSampling, RegressionLoss, ReleaseList, ResidualRounds, ResidualSsp, ResidualSspParams,
    Round, Run, ScoreModel, SspSolve, StepSize, TaskCounts, TaskModels, TaskSetup, Trainer,
    TunedModel, Tuning, TuningParams,
};
use sha2::{Digest, Sha256};

use crate::support::{ADJACENCY, pay, target};

fn plan_of<T: Trainer<Error = Error>>(trainer: &T) -> Plan {
    trainer.plan(N_ITEMS, target(8.0), ADJACENCY).unwrap()
}

fn ledger(plan: &Plan) -> Ledger {
    let budget = Budget::new(plan.target(), ADJACENCY).unwrap();
    Ledger::in_memory("made", budget).unwrap()
}

/// Resumed, replayed, in shards and with workers: [`TrainerCheck`].
struct Laws(Private<Interactions>);

impl Check for Laws {
    fn check<T>(&mut self, name: &str, trainer: &T)
    where
        T: Trainer<Data = Private<Interactions>, Error = Error> + Sync,
        T::Model: Numbers,
    {
        let (data, nobody, plan) = (&self.0, nobody(), plan_of(trainer));
        let check = TrainerCheck {
            trainer,
            plan: &plan,
            data,
            nobody: &nobody,
            table: &|data| data,
            deal: &|k, part| {
                let shards = data.expose().deal(k, part).into_iter();
                shards.map(|shard| Box::new(Private::new(shard))).collect()
            },
            bits: &|model| model.bits(),
        };
        if let Err(broken) = check.all() {
            panic!("{name}: {broken}");
        }
    }
}

#[test]
fn every_model_is_a_function_of_its_list_of_releases() {
    for_each_trainer(&mut Laws(users()));
}

/// Prefixes of SHA-256 of the models' bits with one seed, on processors with AVX2. Most are the
/// same on those with AVX-512.
const GOLDEN: [(&str, Option<&str>); 30] = [
    ("statistics", Some("44d95e3f3d26baf0")),
    ("statistics without tastes", Some("a3a3adec85ec96a0")),
    ("length by rule", Some("a3a3adec85ec96a0")),
    ("no counts, some records", Some("081c93b32ba6db15")),
    (
        "rare records of the head without biases",
        Some("b5ddad3877baa81a"),
    ),
    ("pooled statistics", Some("9cd73c9967c718d9")),
    ("gradients", Some("a2e8ca3d8acf664c")),
    ("residuals", Some("af77123086d5bc9c")),
    ("pooled residuals", None),
    ("likes, pooled", Some("c290e1451cd419fc")),
    ("likes, per item", Some("a19f17ae1fa2d38c")),
    ("likes, per item alone", Some("222ad3e28afac59c")),
    ("likes without biases", Some("a061d285efcee3a7")),
    ("likes by rule", Some("02a38d7be2e79faf")),
    ("records left out", None),
    ("records left out, tastes dropped", None),
    ("records left out, votes on tastes", None),
    ("records left out, nothing to vote on", None),
    ("global effects", None),
    ("public tastes", None),
    ("public tastes of nothing", None),
    ("choice among ratings", None),
    ("choice among lists", Some("739bf3b8330ecae5")),
    ("regression: shrinkage", Some("2d578a296777ed66")),
    ("regression: ridge", Some("b355ba4989b7c116")),
    ("regression: pseudo-inverse", Some("6286937623931033")),
    ("regression: descent", Some("fb12c5eb45609c25")),
    (
        "regression: descent on Huber's loss",
        Some("45f70381f09a82a8"),
    ),
    ("regression: pooled residuals", Some("0321df2367b5464f")),
    ("regression: residuals per task", Some("6d83618bafd23eaa")),
];

/// Those that differ with AVX-512, whose longer vectors add in another order. `None`, here or above,
/// where they have not been recorded.
const GOLDEN_AVX512: [(&str, Option<&str>); 12] = [
    ("pooled residuals", Some("eec61b736270a468")),
    ("likes, per item", Some("0ef3f126400e474d")),
    ("likes, per item alone", Some("20c20eada36e67bb")),
    ("records left out", Some("6b28fb6bfd90ddf4")),
    ("records left out, tastes dropped", Some("2ed719a30abc27bd")),
    (
        "records left out, votes on tastes",
        Some("473799cf7caac0c6"),
    ),
    (
        "records left out, nothing to vote on",
        Some("ee2de2c308a00334"),
    ),
    ("global effects", Some("60a01d1f37889288")),
    ("public tastes", Some("61b08a92f19c9f8a")),
    ("choice among ratings", Some("d174f26d7c9f3170")),
    ("public tastes of nothing", Some("58658bf1fa8ac664")),
    ("regression: pseudo-inverse", Some("10ebf658f2b66ba6")),
];

struct Hashes {
    data: Private<Interactions>,
    found: Vec<(String, String)>,
}

impl Check for Hashes {
    fn check<T>(&mut self, name: &str, trainer: &T)
    where
        T: Trainer<Data = Private<Interactions>, Error = Error> + Sync,
        T::Model: Numbers,
    {
        let plan = plan_of(trainer);
        let spends = pay(&plan);
        let noise = &mut NoiseSource::insecure_seeded(3);
        let fitted = trainer.fit(&self.data, &plan, spends, noise).unwrap();
        let mut hash = Sha256::new();
        for bits in fitted.model.bits() {
            hash.update(bits.to_le_bytes());
        }
        let hash = hash.finalize();
        let hex = hash.iter().take(8).map(|byte| format!("{byte:02x}"));
        self.found.push((name.to_owned(), hex.collect()));
    }
}

#[test]
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn models_have_the_bits_that_they_had() {
    let has_avx512 = std::arch::is_x86_feature_detected!("avx512f");
    if !has_avx512 && !std::arch::is_x86_feature_detected!("avx2") {
        return;
    }
    let mut hashes = Hashes {
        data: users(),
        found: Vec::new(),
    };
    for_each_trainer(&mut hashes);
    let others: HashMap<_, _> = match has_avx512 {
        true => GOLDEN_AVX512.into_iter().collect(),
        false => HashMap::new(),
    };
    let expected = GOLDEN.map(|(name, hash)| (name, *others.get(name).unwrap_or(&hash)));
    assert_eq!(hashes.found.len(), expected.len());
    let pairs = hashes.found.iter().zip(&expected);
    let found: Vec<_> = pairs
        .map(|((name, hash), (_, expected))| (&**name, expected.map(|_| &**hash)))
        .collect();
    assert_eq!(found, expected);
}

/// Records the list and the parameters after each round.
#[derive(Default)]
struct Keep {
    entries: Vec<ReleaseEntry>,
    rounds: Vec<Vec<u64>>,
}

impl Observer for Keep {
    fn listed(&mut self, entry: &ReleaseEntry) {
        self.entries.push(entry.clone());
    }

    fn round(&mut self, round: &Round<'_>) {
        assert_eq!(round.round, self.rounds.len());
        let bits = round.parameters.iter().map(|x| x.to_bits());
        self.rounds.push(bits.collect());
    }
}

#[test]
fn a_list_that_ends_early_gives_the_model_of_its_last_whole_round() {
    let data = users();
    for (name, fit) in factorizations() {
        let plan = plan_of(&fit);
        let (mut keep, mut ledger) = (Keep::default(), ledger(&plan));
        let noise = &mut NoiseSource::insecure_seeded(3);
        let run = Run::paying(&plan, &mut ledger, noise).unwrap();
        let list = ReleaseList::hashes_only("r", &plan).unwrap();
        fit.run(&data, run.listed_in(list).observed_by(&mut keep))
            .unwrap();
        for n_entries in 0..=keep.entries.len() {
            let part = keep.entries[..n_entries].to_vec();
            let n_paid = part.iter().map(|entry| entry.paid().len()).sum();
            let list = ReleaseList::of_entries("r", &plan, part).unwrap();
            let made = fit.run(&nobody(), Run::replay(&plan, list).unwrap());
            let n_rounds = fit.n_rounds_after(n_paid);
            if n_rounds == 0 {
                let ended = matches!(made, Err(Error::Mechanism(dp_mechanism::Error::EndOfList)));
                assert!(ended, "{name}");
                continue;
            }
            let made = made.unwrap();
            let factors = made.model.item_factors().iter();
            let bits: Vec<u64> = factors.map(|x| x.to_bits()).collect();
            assert_eq!(bits, keep.rounds[n_rounds], "{name}");
            assert_eq!(made.certificate.releases.len(), n_paid, "{name}");
            made.certificate.verify().unwrap();
        }
        assert_eq!(keep.rounds.len(), fit.params().n_rounds + 1);
    }
}

pub(crate) const N_ITEMS: usize = 30;
pub(crate) const DIM: usize = 3;

/// Users with features and half-star ratings of some items; a few have no records.
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

/// An empty table with the same public shape.
pub(crate) fn nobody() -> Private<Interactions> {
    let builder = InteractionsBuilder::new(N_ITEMS).with_feature_dim(DIM);
    Private::new(builder.build().0)
}

/// The numbers by which two models are compared.
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

/// A property that holds for a trainer.
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

/// The defaults, with a dimension by rule that is above 1 for few users.
fn left_out(least_signal: f64) -> FactorizationParams {
    let mut params = FactorizationParams::for_target(target(8.0));
    (params.n_rounds, params.weight_exponent) = (3, 0.0);
    params.global_effects = false;
    params.pooled_matrices = Some(PooledMatrices { weight_share: 0.04 });
    params.item_update = ItemUpdate::Residual(ResidualRounds {
        n_statistics_rounds: 1,
        leave_one_out: true,
        least_signal,
        ..ResidualRounds::new()
    });
    params
}

/// The same with votes on taste factors after the last round.
fn voted(round_growth: f64) -> FactorizationParams {
    let mut params = left_out(1e9);
    (params.n_rounds, params.round_growth) = (2, round_growth);
    if let ItemUpdate::Residual(of) = &mut params.item_update {
        of.taste_vote_share = 0.01;
    }
    params
}

fn implicit(item_gramian: ItemGramian, item_unobserved_weight: f64) -> FactorizationParams {
    let mut params = FactorizationParams::implicit_for_target(target(8.0));
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
        ..FactorizationParams::adadpals_for_target(target(8.0))
    };
    let with = |change: &dyn Fn(&mut FactorizationParams)| {
        let mut params = ssp.clone();
        change(&mut params);
        params
    };
    let pooled = Some(PooledMatrices::default());
    let plain = {
        let mut params = FactorizationParams::implicit_plain_for_target(target(8.0));
        (params.dim, params.n_rounds, params.least_head) = (Some(4), 2, 8);
        params
    };
    let by_rule = FactorizationParams {
        dim: None,
        least_head: 5,
        count_share: 0.02,
        ..plain.clone()
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
        ("likes by rule", by_rule),
        ("records left out", left_out(0.0)),
        ("records left out, tastes dropped", left_out(1e9)),
        ("records left out, votes on tastes", voted(8.0)),
        ("records left out, nothing to vote on", voted(0.3)),
        (
            "global effects",
            FactorizationParams {
                global_effects: true,
                ..left_out(0.0)
            },
        ),
    ];
    let mut all: Vec<_> = all
        .map(|(name, params)| (name, params.check().unwrap()))
        .into();
    // users vote for the first one, whose small factors hardly change a prediction, and nobody votes
    // on the second one
    let columns = [("public tastes", 5), ("public tastes of nothing", 1)];
    all.extend(columns.map(|(name, n_values)| {
        let fit = with(&|p| {
            p.n_rounds = 3;
            p.item_update = residual(2, 0.25);
            p.pooled_matrices = pooled;
            if n_values > 1 {
                p.init_stddev = 0.01;
            }
        });
        let rows = (0..N_ITEMS).map(|item| (item % n_values) as f64).collect();
        let prior = ItemPrior::new(rows, 1, 0..1).unwrap();
        (name, fit.check().unwrap().with_prior(prior).unwrap())
    }));
    all
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

/// Only in one of these runs does the signal suffice for a vote.
#[test]
fn tastes_are_voted_on_where_the_names_say_so() {
    let data = users();
    for (params, votes) in [(voted(0.3), false), (voted(8.0), true)] {
        let trainer = params.check().unwrap();
        let plan = plan_of(&trainer);
        let spends = pay(&plan);
        let noise = &mut NoiseSource::insecure_seeded(3);
        let model = trainer.fit(&data, &plan, spends, noise).unwrap().model;
        assert_eq!(model.taste_votes().is_some(), votes);
    }
}
