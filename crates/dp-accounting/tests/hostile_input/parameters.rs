//! The parameters of an event and their ranges.

use dp_core::{DpEvent, Stopping};

/// What a real parameter may be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Range {
    Positive,
    NotNegative,
    /// (0, 1].
    Probability,
    /// [0, 1].
    DeltaLike,
    /// (0, 1).
    Open,
    Above(f64),
}

impl Range {
    pub(super) fn holds(self, x: f64) -> bool {
        x.is_finite()
            && match self {
                Self::Positive => x > 0.0,
                Self::NotNegative => x >= 0.0,
                Self::Probability => x > 0.0 && x <= 1.0,
                Self::DeltaLike => (0.0..=1.0).contains(&x),
                Self::Open => x > 0.0 && x < 1.0,
                Self::Above(low) => x > low,
            }
    }
}

/// Every real parameter of an event, at any depth. A new variant does not compile here.
pub(super) fn reals(event: &mut DpEvent) -> Vec<(&mut f64, Range)> {
    use Range::{Above, DeltaLike, NotNegative, Open, Positive, Probability};
    match event {
        DpEvent::Gaussian {
            noise_multiplier, ..
        }
        | DpEvent::Laplace { noise_multiplier }
        | DpEvent::RandomAllocation {
            noise_multiplier, ..
        }
        | DpEvent::TreeAggregation {
            noise_multiplier, ..
        } => vec![(noise_multiplier, Positive)],
        DpEvent::DiscreteGaussian { sigma, .. } => vec![(sigma, Positive)],
        DpEvent::DiscreteLaplace { rate, .. } => vec![(rate, Positive)],
        DpEvent::RandomizedResponse {
            noise_probability, ..
        } => vec![(noise_probability, Probability)],
        DpEvent::BoundedRange { epsilon, .. } => vec![(epsilon, Positive)],
        DpEvent::ApproxDp { epsilon, delta, .. } => {
            vec![(epsilon, NotNegative), (delta, DeltaLike)]
        }
        DpEvent::Zcdp { rho, .. } => vec![(rho, Positive)],
        DpEvent::Rdp { order, epsilon, .. } => vec![(order, Above(1.0)), (epsilon, NotNegative)],
        DpEvent::PoissonSampled {
            sampling_probability,
            event,
        } => {
            let mut all = reals(event);
            all.push((sampling_probability, Probability));
            all
        }
        DpEvent::SampledWithoutReplacement { event, .. } | DpEvent::Repeated { event, .. } => {
            reals(event)
        }
        DpEvent::MixtureOfGaussians {
            sigma,
            sensitivities,
            probabilities,
        } => {
            let mut all = vec![(sigma, Positive)];
            all.extend(sensitivities.iter_mut().map(|s| (s, NotNegative)));
            all.extend(probabilities.iter_mut().map(|p| (p, Probability)));
            all
        }
        DpEvent::Composed { events } => events.iter_mut().flat_map(reals).collect(),
        DpEvent::RepeatAndSelect { event, stopping } => {
            let mut all = reals(event);
            match stopping {
                Stopping::TruncatedNegativeBinomial {
                    shape,
                    success_probability,
                } => {
                    all.push((shape, Above(-1.0)));
                    all.push((success_probability, Open));
                }
                Stopping::Logarithmic {
                    success_probability,
                } => all.push((success_probability, Open)),
                Stopping::Poisson { mean } => all.push((mean, Positive)),
            }
            all
        }
        DpEvent::NonPrivate => Vec::new(),
    }
}

/// Events with one whole-number parameter out of its range.
pub(super) fn bad_whole_numbers() -> Vec<DpEvent> {
    let gaussian = || Box::new(DpEvent::gaussian(1.0));
    let without = |sample_size, population_size| DpEvent::SampledWithoutReplacement {
        sample_size,
        population_size,
        event: gaussian(),
    };
    let allocation = |n_selected, n_steps| DpEvent::random_allocation(1.0, n_selected, n_steps);
    vec![
        DpEvent::discrete_gaussian(1.0, 0),
        DpEvent::discrete_laplace(1.0, 0),
        DpEvent::randomized_response(0.5, 0),
        DpEvent::randomized_response(0.5, 1),
        without(0, 10),
        without(11, 10),
        without(0, 0),
        allocation(0, 10),
        allocation(11, 10),
        allocation(0, 0),
        DpEvent::tree_aggregation(1.0, 0),
        DpEvent::gaussian(1.0).repeated(0),
        DpEvent::laplace(1.0).repeated(0),
        DpEvent::sampled_gaussian(1.0, 0.1).repeated(0).repeated(5),
        DpEvent::Composed { events: vec![] },
        DpEvent::Composed { events: vec![] }.repeated(7),
        DpEvent::Composed { events: vec![] }.poisson_sampled(0.5),
        DpEvent::laplace(1.0).repeated(u64::MAX).repeated(2),
        DpEvent::laplace(1.0)
            .repeated(u64::MAX)
            .repeated(u64::MAX)
            .repeated(u64::MAX),
        DpEvent::composed(vec![
            DpEvent::laplace(1.0).repeated(u64::MAX),
            DpEvent::laplace(1.0),
        ]),
        DpEvent::mixture_of_gaussians(1.0, [], []),
        DpEvent::mixture_of_gaussians(1.0, [1.0], [0.5, 0.5]),
        DpEvent::mixture_of_gaussians(1.0, [0.0, 0.0], [0.5, 0.5]),
        DpEvent::mixture_of_gaussians(1.0, [0.0, 1.0], [0.5, 0.4]),
        DpEvent::mixture_of_gaussians(1.0, [0.0, 1.0], [0.5, 0.6]),
    ]
}
