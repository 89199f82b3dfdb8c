//! Random events, and one of every kind.

use dp_core::{Adjacency, DpEvent, Relation, ReplaceFactor, Stopping};

use super::draw::Draw;

pub(crate) const ADJACENCIES: [Adjacency; 4] = [
    Adjacency::AddRemoveUser,
    Adjacency::ReplaceUser,
    Adjacency::AddRemoveRecord,
    Adjacency::ReplaceRecord,
];

/// The name of a variant. Adding a variant to `DpEvent` breaks compilation here.
pub(crate) const fn kind(event: &DpEvent) -> &'static str {
    match event {
        DpEvent::Gaussian { .. } => "gaussian",
        DpEvent::Laplace { .. } => "laplace",
        DpEvent::DiscreteGaussian { .. } => "discrete-gaussian",
        DpEvent::DiscreteLaplace { .. } => "discrete-laplace",
        DpEvent::RandomizedResponse { .. } => "randomized-response",
        DpEvent::BoundedRange { .. } => "bounded-range",
        DpEvent::ApproxDp { .. } => "approx-dp",
        DpEvent::Zcdp { .. } => "zcdp",
        DpEvent::Rdp { .. } => "rdp",
        DpEvent::PoissonSampled { .. } => "poisson-sampled",
        DpEvent::SampledWithoutReplacement { .. } => "sampled-without-replacement",
        DpEvent::RandomAllocation { .. } => "random-allocation",
        DpEvent::MixtureOfGaussians { .. } => "mixture-of-gaussians",
        DpEvent::TreeAggregation { .. } => "tree-aggregation",
        DpEvent::Composed { .. } => "composed",
        DpEvent::Repeated { .. } => "repeated",
        DpEvent::RepeatAndSelect { .. } => "repeat-and-select",
        DpEvent::NonPrivate => "non-private",
    }
}

/// The variant after `event`, with ordinary parameters, until there is none. A new variant must be
/// added here.
fn next(event: &DpEvent) -> Option<DpEvent> {
    let relation = Relation::AddRemove;
    Some(match event {
        DpEvent::Gaussian { .. } => DpEvent::laplace(4.0),
        DpEvent::Laplace { .. } => DpEvent::discrete_gaussian(5.0, 2),
        DpEvent::DiscreteGaussian { .. } => DpEvent::discrete_laplace(0.1, 2),
        DpEvent::DiscreteLaplace { .. } => DpEvent::randomized_response(0.7, 5),
        DpEvent::RandomizedResponse { .. } => DpEvent::bounded_range(0.3, relation),
        DpEvent::BoundedRange { .. } => DpEvent::approx_dp(0.2, 1e-9, relation),
        DpEvent::ApproxDp { .. } => DpEvent::zcdp(0.02, relation),
        // replacement does not follow from removals at one order
        DpEvent::Zcdp { .. } => DpEvent::rdp(8.0, 0.1, relation),
        DpEvent::Rdp { .. } => DpEvent::sampled_gaussian(1.5, 0.05),
        DpEvent::PoissonSampled { .. } => {
            DpEvent::gaussian(2.0).sampled_without_replacement(20, 1000)
        }
        DpEvent::SampledWithoutReplacement { .. } => DpEvent::random_allocation(2.0, 2, 50),
        DpEvent::RandomAllocation { .. } => {
            DpEvent::mixture_of_gaussians(4.0, [0.0, 1.0, 2.0], [0.5, 0.375, 0.125])
        }
        DpEvent::MixtureOfGaussians { .. } => DpEvent::tree_aggregation(8.0, 1000),
        DpEvent::TreeAggregation { .. } => {
            DpEvent::composed(vec![DpEvent::gaussian(4.0), DpEvent::laplace(9.0)])
        }
        DpEvent::Composed { .. } => DpEvent::gaussian(6.0).repeated(4),
        DpEvent::Repeated { .. } => DpEvent::gaussian(3.0).best_of(Stopping::Logarithmic {
            success_probability: 0.1,
        }),
        DpEvent::RepeatAndSelect { .. } => DpEvent::NonPrivate,
        DpEvent::NonPrivate => return None,
    })
}

/// One event of every variant.
pub(crate) fn one_of_each() -> Vec<DpEvent> {
    std::iter::successors(Some(DpEvent::gaussian(2.0)), next).collect()
}

/// Further forms of some variants.
fn further_forms() -> Vec<DpEvent> {
    let replace = Relation::Replace;
    let run = Box::new(DpEvent::laplace(5.0));
    vec![
        DpEvent::gaussian_psd(2.0),
        DpEvent::bounded_range(0.3, replace),
        DpEvent::approx_dp(0.2, 0.0, replace),
        DpEvent::zcdp(0.02, replace),
        DpEvent::rdp(16.5, 0.2, replace),
        DpEvent::laplace(4.0).poisson_sampled(0.1),
        DpEvent::approx_dp(0.5, 1e-8, Relation::AddRemove).poisson_sampled(0.1),
        DpEvent::gaussian(2.0).poisson_sampled(1.0),
        DpEvent::RepeatAndSelect {
            event: run.clone(),
            stopping: Stopping::TruncatedNegativeBinomial {
                shape: 1.0,
                success_probability: 0.2,
            },
        },
        DpEvent::RepeatAndSelect {
            event: run,
            stopping: Stopping::Poisson { mean: 3.0 },
        },
    ]
}

/// One event of every variant, and the further forms.
pub(crate) fn every_form() -> Vec<DpEvent> {
    let mut all = one_of_each();
    all.extend(further_forms());
    all
}

/// A random event that privacy loss distributions support.
pub(crate) fn random_pair(draw: &mut Draw, adjacency: Adjacency) -> DpEvent {
    let relation = adjacency.relation();
    match draw.whole(0, 11) {
        0 => DpEvent::Gaussian {
            noise_multiplier: draw.log(0.4, 200.0),
            replace_factor: draw.pick(&[ReplaceFactor::Two, ReplaceFactor::SqrtTwo]),
        },
        1 => DpEvent::laplace(draw.log(0.5, 200.0)),
        2 => DpEvent::discrete_gaussian(draw.log(0.4, 40.0), draw.pick(&[1, 1, 2, 5])),
        3 => DpEvent::discrete_laplace(draw.log(1e-3, 1.5), draw.pick(&[1, 1, 2, 7])),
        4 if adjacency.is_replace() => {
            DpEvent::randomized_response(draw.probability(), draw.pick(&[2, 3, 20, 1_000_000]))
        }
        5 => DpEvent::approx_dp(
            draw.log(1e-3, 1.0),
            if draw.chance(0.5) {
                0.0
            } else {
                draw.log(1e-30, 1e-6)
            },
            relation,
        ),
        6 => DpEvent::laplace(draw.log(0.5, 50.0)).poisson_sampled(draw.probability()),
        7 => mixture(draw),
        8 => DpEvent::tree_aggregation(draw.log(1.0, 200.0), draw.log_whole(1, 1_000_000)),
        _ => DpEvent::sampled_gaussian(draw.log(0.5, 50.0), draw.probability()),
    }
}

/// A random event known by Renyi divergences only, or by an envelope of pairs.
pub(crate) fn random_bound(draw: &mut Draw, adjacency: Adjacency) -> DpEvent {
    let relation = adjacency.relation();
    match draw.whole(0, 5) {
        0 => DpEvent::zcdp(draw.log(1e-6, 1.0), relation),
        1 => DpEvent::rdp(1.0 + draw.log(0.1, 100.0), draw.log(1e-4, 1.0), relation),
        2 => DpEvent::random_allocation(
            draw.log(0.7, 20.0),
            draw.whole(1, 3),
            draw.log_whole(4, 200),
        ),
        3 => DpEvent::gaussian(draw.log(0.7, 20.0)).best_of(Stopping::TruncatedNegativeBinomial {
            shape: draw.pick(&[-0.5, 0.0, 1.0, 3.0]),
            success_probability: draw.log(1e-3, 0.9),
        }),
        4 if adjacency.is_replace() => DpEvent::gaussian(draw.log(0.7, 20.0))
            .sampled_without_replacement(draw.log_whole(1, 500), 1000),
        _ => DpEvent::bounded_range(draw.log(1e-3, 2.0), relation),
    }
}

fn mixture(draw: &mut Draw) -> DpEvent {
    let n = draw.whole(2, 4);
    let weights: Vec<f64> = (0..n).map(|_| draw.log(1e-3, 1.0)).collect();
    let sum: f64 = weights.iter().sum();
    let first = if draw.chance(0.7) { 0.0 } else { 0.3 };
    DpEvent::mixture_of_gaussians(
        draw.log(1.0, 40.0),
        (0..n).map(|i| first + i as f64).collect::<Vec<_>>(),
        weights.iter().map(|w| w / sum).collect::<Vec<_>>(),
    )
}
