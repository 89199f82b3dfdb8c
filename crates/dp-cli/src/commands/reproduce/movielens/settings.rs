//! Settings to choose from, on the validation part, by epsilon: found by random search on the validation part of
//! MovieLens-1M at exact accounting (mu = 1/4 for the published methods). Neither that search nor the choice is charged.

use dp_core::ApproxDp;
use dp_multitask::{
    FactorizationParams, Feedback, GradientRounds, ImplicitFeedback, ItemGramian, ItemUpdate, ResidualBounds, ResidualRounds, ScoreModel,
    StepSize, UserPenalties,
};

use super::methods::Candidate;

/// Public centre of the ratings of the published methods.
const LABEL_CENTER: f64 = 3.5;

/// Of Algorithm 1, for epsilon 1, 5 and 20.
#[rustfmt::skip]
const SSP: [[Ssp; 5]; 3] = [
    [
        Ssp { tastes: 1, n_rounds: 4, round_growth: 1.5, clip_norm: 0.21, training: 0.47, fold_in: 0.21, ridge: 1.2, l2_penalty: 1.2, label_bound: 0.76, init_stddev: 0.39, matrix_share: 0.5 },
        Ssp { tastes: 2, n_rounds: 5, round_growth: 1.5, clip_norm: 0.45, training: 0.015, fold_in: 9.4, ridge: 0.49, l2_penalty: 4.7, label_bound: 0.53, init_stddev: 0.34, matrix_share: 0.35 },
        Ssp { tastes: 1, n_rounds: 5, round_growth: 1.0, clip_norm: 0.21, training: 9.2, fold_in: 0.51, ridge: 0.18, l2_penalty: 3.2, label_bound: 0.53, init_stddev: 0.43, matrix_share: 0.2 },
        Ssp { tastes: 8, n_rounds: 3, round_growth: 2.5, clip_norm: 0.48, training: 0.011, fold_in: 3.6, ridge: 1.3, l2_penalty: 7.5, label_bound: 0.58, init_stddev: 0.062, matrix_share: 0.5 },
        Ssp { tastes: 2, n_rounds: 5, round_growth: 1.5, clip_norm: 0.34, training: 0.4, fold_in: 0.074, ridge: 0.051, l2_penalty: 9.3, label_bound: 1.2, init_stddev: 0.8, matrix_share: 0.5 },
    ],
    [
        Ssp { tastes: 4, n_rounds: 4, round_growth: 1.5, clip_norm: 0.39, training: 0.14, fold_in: 1.1, ridge: 0.71, l2_penalty: 0.4, label_bound: 0.42, init_stddev: 0.11, matrix_share: 0.2 },
        Ssp { tastes: 2, n_rounds: 3, round_growth: 1.5, clip_norm: 0.6, training: 0.19, fold_in: 0.11, ridge: 0.12, l2_penalty: 2.0, label_bound: 1.0, init_stddev: 0.22, matrix_share: 0.2 },
        Ssp { tastes: 2, n_rounds: 3, round_growth: 1.5, clip_norm: 0.57, training: 0.082, fold_in: 5.8, ridge: 0.37, l2_penalty: 2.0, label_bound: 1.6, init_stddev: 0.074, matrix_share: 0.2 },
        Ssp { tastes: 16, n_rounds: 5, round_growth: 2.5, clip_norm: 0.21, training: 0.015, fold_in: 8.4, ridge: 0.17, l2_penalty: 0.48, label_bound: 0.5, init_stddev: 0.061, matrix_share: 0.35 },
        Ssp { tastes: 4, n_rounds: 5, round_growth: 1.0, clip_norm: 0.4, training: 0.19, fold_in: 2.3, ridge: 1.1, l2_penalty: 2.1, label_bound: 0.53, init_stddev: 0.3, matrix_share: 0.2 },
    ],
    [
        Ssp { tastes: 4, n_rounds: 4, round_growth: 2.5, clip_norm: 0.41, training: 4.5, fold_in: 0.053, ridge: 0.93, l2_penalty: 0.13, label_bound: 0.63, init_stddev: 0.29, matrix_share: 0.35 },
        Ssp { tastes: 2, n_rounds: 5, round_growth: 1.5, clip_norm: 0.76, training: 0.023, fold_in: 0.12, ridge: 0.29, l2_penalty: 2.9, label_bound: 1.4, init_stddev: 0.58, matrix_share: 0.35 },
        Ssp { tastes: 2, n_rounds: 5, round_growth: 1.5, clip_norm: 0.61, training: 0.014, fold_in: 0.4, ridge: 0.7, l2_penalty: 1.9, label_bound: 0.96, init_stddev: 0.44, matrix_share: 0.5 },
        Ssp { tastes: 16, n_rounds: 3, round_growth: 1.5, clip_norm: 0.64, training: 0.27, fold_in: 19.0, ridge: 0.22, l2_penalty: 0.74, label_bound: 1.1, init_stddev: 0.2, matrix_share: 0.35 },
        Ssp { tastes: 8, n_rounds: 2, round_growth: 1.5, clip_norm: 0.37, training: 0.017, fold_in: 17.0, ridge: 0.065, l2_penalty: 0.3, label_bound: 0.83, init_stddev: 0.13, matrix_share: 0.35 },
    ],
];

/// Of Algorithm 2.
#[rustfmt::skip]
const STEPS: [[Steps; 5]; 3] = [
    [
        Steps { tastes: 2, n_rounds: 8, round_growth: 1.0, clip_norm: 0.7, training: 0.45, fold_in: 4.5, label_bound: 1.3, init_stddev: 0.21, residual_bound: 0.22, rate: 1.3, damping: 2.3, radius: 3.8 },
        Steps { tastes: 4, n_rounds: 5, round_growth: 1.3, clip_norm: 0.3, training: 0.15, fold_in: 20.0, label_bound: 0.76, init_stddev: 0.3, residual_bound: 0.39, rate: 0.49, damping: 0.8, radius: 2.9 },
        Steps { tastes: 4, n_rounds: 12, round_growth: 1.7, clip_norm: 0.46, training: 0.11, fold_in: 0.16, label_bound: 1.5, init_stddev: 0.13, residual_bound: 0.31, rate: 0.77, damping: 0.36, radius: 1.6 },
        Steps { tastes: 2, n_rounds: 5, round_growth: 1.7, clip_norm: 0.42, training: 0.02, fold_in: 35.0, label_bound: 1.4, init_stddev: 0.21, residual_bound: 0.28, rate: 1.9, damping: 1.6, radius: 2.5 },
        Steps { tastes: 1, n_rounds: 8, round_growth: 1.7, clip_norm: 0.29, training: 0.24, fold_in: 0.3, label_bound: 1.0, init_stddev: 0.16, residual_bound: 0.54, rate: 1.7, damping: 2.9, radius: 1.9 },
    ],
    [
        Steps { tastes: 4, n_rounds: 12, round_growth: 1.0, clip_norm: 0.48, training: 0.08, fold_in: 0.073, label_bound: 0.57, init_stddev: 0.2, residual_bound: 0.56, rate: 0.47, damping: 2.1, radius: 2.0 },
        Steps { tastes: 4, n_rounds: 12, round_growth: 1.0, clip_norm: 0.81, training: 0.78, fold_in: 0.1, label_bound: 1.9, init_stddev: 0.25, residual_bound: 0.39, rate: 1.0, damping: 1.4, radius: 1.8 },
        Steps { tastes: 2, n_rounds: 8, round_growth: 1.3, clip_norm: 0.44, training: 0.18, fold_in: 15.0, label_bound: 0.4, init_stddev: 0.1, residual_bound: 0.31, rate: 0.51, damping: 0.84, radius: 8.3 },
        Steps { tastes: 8, n_rounds: 12, round_growth: 1.7, clip_norm: 0.31, training: 0.8, fold_in: 0.51, label_bound: 1.5, init_stddev: 0.82, residual_bound: 0.53, rate: 1.3, damping: 1.2, radius: 3.5 },
        Steps { tastes: 2, n_rounds: 3, round_growth: 1.0, clip_norm: 0.31, training: 0.7, fold_in: 0.072, label_bound: 1.3, init_stddev: 0.18, residual_bound: 0.97, rate: 1.4, damping: 2.6, radius: 6.8 },
    ],
    [
        Steps { tastes: 4, n_rounds: 12, round_growth: 1.0, clip_norm: 0.37, training: 0.22, fold_in: 35.0, label_bound: 1.6, init_stddev: 0.11, residual_bound: 0.66, rate: 0.63, damping: 2.2, radius: 8.0 },
        Steps { tastes: 4, n_rounds: 8, round_growth: 1.0, clip_norm: 0.3, training: 4.1, fold_in: 0.38, label_bound: 1.9, init_stddev: 0.26, residual_bound: 0.72, rate: 0.37, damping: 0.43, radius: 6.8 },
        Steps { tastes: 8, n_rounds: 3, round_growth: 1.3, clip_norm: 0.62, training: 7.2, fold_in: 6.9, label_bound: 1.5, init_stddev: 0.17, residual_bound: 0.58, rate: 1.2, damping: 1.2, radius: 4.7 },
        Steps { tastes: 2, n_rounds: 8, round_growth: 1.3, clip_norm: 0.23, training: 0.051, fold_in: 0.42, label_bound: 1.1, init_stddev: 0.15, residual_bound: 0.47, rate: 1.6, damping: 2.3, radius: 15.0 },
        Steps { tastes: 8, n_rounds: 5, round_growth: 1.7, clip_norm: 0.33, training: 0.49, fold_in: 7.5, label_bound: 0.89, init_stddev: 0.1, residual_bound: 1.1, rate: 0.41, damping: 0.74, radius: 1.7 },
    ],
];

/// Of Algorithm 1 for lists.
#[rustfmt::skip]
const LISTS: [[Listed; 1]; 3] = [
    [
        Listed { dim: 9, n_rounds: 2, round_growth: 1.0, clip_norm: 0.95, matrix_share: 0.3, ridge: 0.5, l2_penalty: 1.0, training: 0.1, fold_in: 1.0, offset: 1.0, unobserved: [0.1, 0.3, 0.1], gramian_share: 0.05 },
    ],
    [
        Listed { dim: 9, n_rounds: 2, round_growth: 1.0, clip_norm: 0.95, matrix_share: 0.3, ridge: 0.5, l2_penalty: 1.0, training: 0.1, fold_in: 1.0, offset: 1.0, unobserved: [0.1, 0.3, 0.1], gramian_share: 0.05 },
    ],
    [
        Listed { dim: 9, n_rounds: 2, round_growth: 1.0, clip_norm: 0.95, matrix_share: 0.3, ridge: 0.5, l2_penalty: 1.0, training: 0.1, fold_in: 1.0, offset: 1.0, unobserved: [0.1, 0.3, 0.1], gramian_share: 0.05 },
    ],
];

/// Of the residual form in best mode.
#[rustfmt::skip]
const RESIDUALS: [[Residuals; 4]; 3] = [
    [
        Residuals { dim: 1, n_statistics_rounds: 2, n_rounds: 4, round_growth: 1.0, ratio: 0.7, pull: 0.0, ridge: 1.8, l2_penalty: 1.1, matrix_share: 0.35 },
        Residuals { dim: 1, n_statistics_rounds: 3, n_rounds: 5, round_growth: 1.0, ratio: 0.8, pull: 0.0, ridge: 1.4, l2_penalty: 1.2, matrix_share: 0.2 },
        Residuals { dim: 1, n_statistics_rounds: 3, n_rounds: 5, round_growth: 2.0, ratio: 0.7, pull: 0.0, ridge: 0.96, l2_penalty: 0.52, matrix_share: 0.2 },
        Residuals { dim: 3, n_statistics_rounds: 3, n_rounds: 6, round_growth: 2.5, ratio: 1.0, pull: 0.5, ridge: 0.75, l2_penalty: 0.72, matrix_share: 0.2 },
    ],
    [
        Residuals { dim: 4, n_statistics_rounds: 3, n_rounds: 6, round_growth: 1.5, ratio: 0.95, pull: 0.0, ridge: 1.3, l2_penalty: 2.3, matrix_share: 0.35 },
        Residuals { dim: 4, n_statistics_rounds: 3, n_rounds: 5, round_growth: 1.0, ratio: 0.9, pull: 0.0, ridge: 1.2, l2_penalty: 0.9, matrix_share: 0.2 },
        Residuals { dim: 4, n_statistics_rounds: 3, n_rounds: 6, round_growth: 1.0, ratio: 0.7, pull: 0.0, ridge: 1.4, l2_penalty: 3.0, matrix_share: 0.2 },
        Residuals { dim: 5, n_statistics_rounds: 4, n_rounds: 5, round_growth: 2.0, ratio: 0.9, pull: 0.0, ridge: 0.4, l2_penalty: 3.4, matrix_share: 0.2 },
    ],
    [
        Residuals { dim: 5, n_statistics_rounds: 4, n_rounds: 7, round_growth: 1.0, ratio: 0.7, pull: 0.0, ridge: 0.31, l2_penalty: 3.0, matrix_share: 0.35 },
        Residuals { dim: 6, n_statistics_rounds: 4, n_rounds: 7, round_growth: 1.5, ratio: 0.95, pull: 0.0, ridge: 0.59, l2_penalty: 2.6, matrix_share: 0.35 },
        Residuals { dim: 5, n_statistics_rounds: 4, n_rounds: 5, round_growth: 2.5, ratio: 1.0, pull: 0.5, ridge: 0.99, l2_penalty: 0.83, matrix_share: 0.2 },
        Residuals { dim: 8, n_statistics_rounds: 4, n_rounds: 5, round_growth: 1.5, ratio: 0.9, pull: 0.5, ridge: 0.84, l2_penalty: 1.8, matrix_share: 0.2 },
    ],
];

/// A setting of a published method and its name in the table.
pub(super) struct Published {
    pub(super) label: String,
    pub(super) settings: FactorizationParams,
}

/// What the settings of Algorithm 1 differ in.
struct Ssp {
    tastes: usize,
    n_rounds: usize,
    round_growth: f64,
    clip_norm: f64,
    training: f64,
    fold_in: f64,
    ridge: f64,
    l2_penalty: f64,
    label_bound: f64,
    init_stddev: f64,
    matrix_share: f64,
}

/// What those of Algorithm 2 differ in.
struct Steps {
    tastes: usize,
    n_rounds: usize,
    round_growth: f64,
    clip_norm: f64,
    training: f64,
    fold_in: f64,
    label_bound: f64,
    init_stddev: f64,
    residual_bound: f64,
    rate: f64,
    damping: f64,
    radius: f64,
}

/// What those of the residual form differ in.
struct Residuals {
    dim: usize,
    n_statistics_rounds: usize,
    n_rounds: usize,
    round_growth: f64,
    ratio: f64,
    pull: f64,
    ridge: f64,
    l2_penalty: f64,
    matrix_share: f64,
}

/// The settings of `table` for little, middle or much privacy loss.
fn at<T>(table: &[T; 3], target: ApproxDp) -> &T {
    match target.epsilon {
        epsilon if epsilon < 2.5 => &table[0],
        epsilon if epsilon < 10.0 => &table[1],
        _ => &table[2],
    }
}

fn penalties(factor: f64) -> UserPenalties {
    UserPenalties {
        offset: 1.0, // without biases there is no offset
        factor,
        factor_per_record: 0.0,
    }
}

/// The model of the paper: no biases, a public centre.
fn plain(target: ApproxDp, tastes: usize) -> FactorizationParams {
    FactorizationParams {
        score_model: ScoreModel::Plain,
        dim: Some(tastes + 1),
        label_center: LABEL_CENTER,
        ..FactorizationParams::for_target(target)
    }
}

/// Algorithm 3 with Algorithm 1 as the item update: per-item Gramians, no biases.
pub(super) fn published_ssp(target: ApproxDp) -> Vec<Published> {
    at(&SSP, target).iter().map(|s| s.published(target)).collect()
}

impl Ssp {
    fn published(&self, target: ApproxDp) -> Published {
        Published {
            label: format!("{} tastes, {} rounds", self.tastes, self.n_rounds),
            settings: FactorizationParams {
                n_rounds: self.n_rounds,
                round_growth: self.round_growth,
                clip_norm: self.clip_norm,
                training_penalties: penalties(self.training),
                fold_in_penalties: penalties(self.fold_in),
                item_ridge_factor: self.ridge,
                item_l2_penalty: self.l2_penalty,
                label_bound: self.label_bound,
                init_stddev: self.init_stddev,
                matrix_share: self.matrix_share,
                ..plain(target, self.tastes)
            },
        }
    }
}

/// Algorithm 3 with Algorithm 2: one noisy gradient step per round.
pub(super) fn published_steps(target: ApproxDp) -> Vec<Published> {
    at(&STEPS, target).iter().map(|s| s.published(target)).collect()
}

impl Steps {
    fn published(&self, target: ApproxDp) -> Published {
        let mut steps = GradientRounds::new(self.residual_bound, self.tastes);
        steps.radius = self.radius;
        steps.step_size = StepSize::Curvature {
            rate: self.rate,
            curvature: self.clip_norm.powi(2) / self.tastes as f64,
            damping: self.damping,
        };
        Published {
            label: format!("{} tastes, {} steps", self.tastes, self.n_rounds),
            settings: FactorizationParams {
                n_rounds: self.n_rounds,
                round_growth: self.round_growth,
                clip_norm: self.clip_norm,
                training_penalties: penalties(self.training),
                fold_in_penalties: penalties(self.fold_in),
                label_bound: self.label_bound,
                init_stddev: self.init_stddev,
                item_update: ItemUpdate::NoisyGd(steps),
                ..plain(target, self.tastes)
            },
        }
    }
}

/// The best mode's model and defaults, with later rounds on residuals.
pub(super) fn best_residual(target: ApproxDp) -> Vec<Candidate> {
    at(&RESIDUALS, target).iter().map(|r| r.candidate(target)).collect()
}

impl Residuals {
    fn candidate(&self, target: ApproxDp) -> Candidate {
        let (first, all) = (self.n_statistics_rounds, self.n_rounds);
        let update = ResidualRounds {
            n_statistics_rounds: first,
            bounds: ResidualBounds::Geometric { ratio: self.ratio },
            pull: self.pull,
            ..ResidualRounds::new()
        };
        Candidate {
            label: format!("dim {}, {first} rounds and {} on residuals", self.dim, all - first),
            settings: FactorizationParams {
                dim: Some(self.dim),
                n_rounds: all,
                round_growth: self.round_growth,
                item_ridge_factor: self.ridge,
                item_l2_penalty: self.l2_penalty,
                matrix_share: self.matrix_share,
                item_update: ItemUpdate::Residual(update),
                ..FactorizationParams::for_target(target)
            },
        }
    }
}

/// Implicit feedback as in the paper: each item's own matrix. The rest are the defaults of the best mode, but for
/// what is listed.
pub(super) fn published_lists(target: ApproxDp) -> Vec<Published> {
    at(&LISTS, target).iter().map(|l| l.published(target)).collect()
}

/// What the settings for lists differ in.
struct Listed {
    dim: usize,
    n_rounds: usize,
    round_growth: f64,
    clip_norm: f64,
    matrix_share: f64,
    ridge: f64,
    l2_penalty: f64,
    training: f64,
    fold_in: f64,
    offset: f64,
    /// Weights of the unobserved: while training, at fold-in, of the item step.
    unobserved: [f64; 3],
    gramian_share: f64,
}

impl Listed {
    fn published(&self, target: ApproxDp) -> Published {
        let [training, fold_in, item] = self.unobserved;
        let defaults = FactorizationParams::implicit_for_target(target);
        let fold_in_penalties = UserPenalties {
            factor: self.fold_in,
            ..defaults.fold_in_penalties
        };
        Published {
            label: format!("dim {}, {} rounds", self.dim, self.n_rounds),
            settings: FactorizationParams {
                dim: Some(self.dim),
                n_rounds: self.n_rounds,
                round_growth: self.round_growth,
                clip_norm: self.clip_norm,
                matrix_share: self.matrix_share,
                item_ridge_factor: self.ridge,
                item_l2_penalty: self.l2_penalty,
                training_penalties: UserPenalties {
                    offset: self.offset,
                    factor: self.training,
                    factor_per_record: 0.0,
                },
                fold_in_penalties,
                feedback: Feedback::Implicit(ImplicitFeedback {
                    training_unobserved_weight: training,
                    fold_in_unobserved_weight: fold_in,
                    item_unobserved_weight: item,
                    item_gramian: ItemGramian::PerItem,
                    gramian_share: self.gramian_share,
                }),
                ..defaults
            },
        }
    }
}
