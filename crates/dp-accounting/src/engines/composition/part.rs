use dp_core::Stopping;

use super::Composition;
use crate::engines::loss::{Direction, FiniteLoss, Loss, MixtureLoss, Side};

/// One mechanism with its sensitivity under the composition's adjacency worked in.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Part {
    /// A mechanism with a known dominating pair.
    Pair(Pair),
    /// Renyi divergence of every order a is at most rho a.
    Zcdp {
        /// rho, rounded up.
        rho: f64,
    },
    /// Renyi divergence of one order is known.
    Rdp {
        /// The order.
        order: f64,
        /// The divergence.
        epsilon: f64,
    },
    /// Each unit in `n_selected` of `n_steps` Gaussian steps, at random.
    RandomAllocation {
        /// Distance over standard deviation of one step; under replacement still that of
        /// add/remove, and `replace` is set.
        mu: f64,
        /// Steps a unit takes part in.
        n_selected: u64,
        /// Steps in all.
        n_steps: u64,
        /// Whether neighbours are made by replacement.
        replace: bool,
    },
    /// The best of a random number of runs.
    RepeatAndSelect {
        /// One run.
        run: Box<Composition>,
        /// How many runs.
        stopping: Stopping,
    },
}

/// A mechanism with a known dominating pair.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Pair {
    /// N(0, 1) and N(mu, 1).
    Gaussian {
        /// mu^2, rounded up.
        mu_squared: f64,
    },
    /// A pair whose loss has the same distribution in both directions.
    Symmetric(Loss),
    /// The same, where no mechanism that fits the event need have exactly this loss: a bound from
    /// above only.
    Envelope(Loss),
    /// A mixture of normals under add/remove.
    Mixture {
        /// Standard deviation.
        sigma: f64,
        /// Shifts, ascending.
        shifts: Vec<f64>,
        /// Weights.
        weights: Vec<f64>,
    },
    /// Laplace on a Poisson sample, under add/remove.
    SampledLaplace {
        /// Sensitivity over scale.
        epsilon: f64,
        /// Sampling probability.
        q: f64,
    },
    /// (epsilon, delta)-DP on a Poisson sample or another pair of two finite losses.
    Finite {
        /// With the unit.
        remove: FiniteLoss,
        /// Without it.
        add: FiniteLoss,
    },
}

impl Pair {
    /// The privacy loss when outputs are drawn in `direction`.
    pub(crate) fn loss(&self, direction: Direction) -> Loss {
        let side = match direction {
            Direction::Remove => Side::Remove,
            Direction::Add => Side::Add,
        };
        match self {
            &Self::Gaussian { mu_squared } => Loss::Gaussian { mu_squared },
            Self::Symmetric(loss) | Self::Envelope(loss) => loss.clone(),
            Self::Mixture {
                sigma,
                shifts,
                weights,
            } => Loss::Mixture(MixtureLoss {
                sigma: *sigma,
                shifts: shifts.clone(),
                weights: weights.clone(),
                side,
            }),
            &Self::SampledLaplace { epsilon, q } => Loss::SampledLaplace { epsilon, q, side },
            Self::Finite { remove, add } => Loss::Finite(match direction {
                Direction::Remove => remove.clone(),
                Direction::Add => add.clone(),
            }),
        }
    }
}
