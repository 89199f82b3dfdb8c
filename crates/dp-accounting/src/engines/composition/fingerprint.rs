//! A key of equal parts, so that counts of equal parts are joined without comparing all pairs.

use std::hash::{DefaultHasher, Hash, Hasher};

use dp_core::Stopping;

use super::{Composition, Pair, Part};
use crate::engines::loss::{FiniteLoss, Loss, MixtureLoss};

/// The same number for equal parts; different parts seldom share one, and what is found by it is
/// compared.
pub(super) fn of(part: &Part) -> u64 {
    let mut key = Key(DefaultHasher::new());
    key.part(part);
    key.0.finish()
}

struct Key(DefaultHasher);

impl Key {
    fn kind(&mut self, value: &impl Hash) {
        value.hash(&mut self.0);
    }

    /// Bits of numbers; 0 and -0 are equal and have the same.
    fn reals(&mut self, values: &[f64]) {
        self.0.write_usize(values.len());
        for value in values {
            self.0.write_u64((value + 0.0).to_bits());
        }
    }

    fn part(&mut self, part: &Part) {
        self.kind(&std::mem::discriminant(part));
        match part {
            Part::Pair(pair) => self.pair(pair),
            &Part::Zcdp { rho } => self.reals(&[rho]),
            &Part::Rdp { order, epsilon } => self.reals(&[order, epsilon]),
            &Part::RandomAllocation {
                mu,
                n_selected,
                n_steps,
                replace,
            } => {
                self.reals(&[mu]);
                self.kind(&(n_selected, n_steps, replace));
            }
            Part::RepeatAndSelect { run, stopping } => {
                self.composition(run);
                self.stopping(*stopping);
            }
        }
    }

    fn composition(&mut self, run: &Composition) {
        self.reals(&[run.gaussian()]);
        for (part, count) in run.parts() {
            self.part(part);
            self.kind(count);
        }
    }

    fn stopping(&mut self, stopping: Stopping) {
        self.kind(&std::mem::discriminant(&stopping));
        match stopping {
            Stopping::TruncatedNegativeBinomial {
                shape,
                success_probability,
            } => self.reals(&[shape, success_probability]),
            Stopping::Logarithmic {
                success_probability,
            } => self.reals(&[success_probability]),
            Stopping::Poisson { mean } => self.reals(&[mean]),
        }
    }

    fn pair(&mut self, pair: &Pair) {
        self.kind(&std::mem::discriminant(pair));
        match pair {
            &Pair::Gaussian { mu_squared } => self.reals(&[mu_squared]),
            Pair::Symmetric(loss) | Pair::Envelope(loss) => self.loss(loss),
            Pair::Mixture {
                sigma,
                shifts,
                weights,
            } => self.mixture(*sigma, shifts, weights),
            &Pair::SampledLaplace { epsilon, q } => self.reals(&[epsilon, q]),
            Pair::Finite { remove, add } => {
                self.finite(remove);
                self.finite(add);
            }
        }
    }

    fn loss(&mut self, loss: &Loss) {
        self.kind(&std::mem::discriminant(loss));
        match loss {
            &Loss::Gaussian { mu_squared } => self.reals(&[mu_squared]),
            &Loss::Laplace { epsilon } | &Loss::BoundedRange { epsilon } => self.reals(&[epsilon]),
            &Loss::DiscreteGaussian { sigma, sensitivity } => {
                self.reals(&[sigma]);
                self.kind(&sensitivity);
            }
            Loss::Finite(finite) => self.finite(finite),
            Loss::Mixture(MixtureLoss {
                sigma,
                shifts,
                weights,
                side,
            }) => {
                self.mixture(*sigma, shifts, weights);
                self.kind(side);
            }
            &Loss::SampledLaplace { epsilon, q, side } => {
                self.reals(&[epsilon, q]);
                self.kind(&side);
            }
            &Loss::WithoutReplacement { mu, q } => self.reals(&[mu, q]),
        }
    }

    fn mixture(&mut self, sigma: f64, shifts: &[f64], weights: &[f64]) {
        self.reals(&[sigma]);
        self.reals(shifts);
        self.reals(weights);
    }

    fn finite(&mut self, finite: &FiniteLoss) {
        self.reals(&[finite.infinite_mass, finite.step.unwrap_or(-1.0)]);
        self.0.write_usize(finite.atoms.len());
        for &(loss, p) in &finite.atoms {
            self.reals(&[loss, p]);
        }
    }
}
