//! The flattened composition: the Gaussian cost as one sum, all other mechanisms as parts with
//! counts.

mod resolve;

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use dp_core::{Adjacency, ParamError, Stopping};

use crate::engines::gdp::finite_cost;
use crate::engines::loss::{Direction, FiniteLoss, Loss, MixtureLoss, Side};
use crate::engines::rounding::UpwardSum;
use crate::{Error, Result};

/// Independent mechanisms under one adjacency, each with its count. The order of composition does
/// not matter to any accountant and is not stored.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Composition {
    adjacency: Adjacency,
    /// mu^2 of all Gaussian mechanisms together.
    gaussian: UpwardSum,
    parts: Vec<(Part, u64)>,
    /// Fingerprints of the parts with their positions.
    places: BTreeSet<(u64, usize)>,
}

impl Composition {
    /// The empty composition.
    pub(crate) const fn new(adjacency: Adjacency) -> Self {
        Self {
            adjacency,
            gaussian: UpwardSum::EMPTY,
            parts: Vec::new(),
            places: BTreeSet::new(),
        }
    }

    /// Gaussian mechanisms with a total of `mu_squared`.
    pub(crate) const fn of_gaussian(mu_squared: UpwardSum, adjacency: Adjacency) -> Self {
        Self {
            adjacency,
            gaussian: mu_squared,
            parts: Vec::new(),
            places: BTreeSet::new(),
        }
    }

    /// Adds all of `other`. On an error, nothing changes.
    pub(crate) fn merge(&mut self, other: Self) -> Result<()> {
        let gaussian = self.gaussian.plus(other.gaussian());
        finite_cost(gaussian.total())?;
        let mut totals = Vec::with_capacity(other.parts.len());
        for (part, count) in &other.parts {
            let key = fingerprint(part);
            let place = self.place(part, key);
            let before = place.map_or(0, |i| self.parts[i].1);
            let total = before.checked_add(*count).ok_or_else(too_many)?;
            totals.push((key, place, total));
        }
        self.gaussian = gaussian;
        for ((part, _), (key, place, total)) in other.parts.into_iter().zip(totals) {
            if let Some(i) = place {
                self.parts[i].1 = total;
            } else {
                self.places.insert((key, self.parts.len()));
                self.parts.push((part, total));
            }
        }
        Ok(())
    }

    /// The position of a part equal to `part`.
    fn place(&self, part: &Part, key: u64) -> Option<usize> {
        let alike = self.places.range((key, 0)..=(key, usize::MAX));
        alike.map(|&(_, i)| i).find(|&i| self.parts[i].0 == *part)
    }

    pub(crate) const fn adjacency(&self) -> Adjacency {
        self.adjacency
    }

    /// mu^2 of the Gaussian mechanisms, 0 without any.
    pub(crate) fn gaussian(&self) -> f64 {
        self.gaussian.total()
    }

    /// The mechanisms that are not Gaussian, with their counts.
    pub(crate) fn parts(&self) -> &[(Part, u64)] {
        &self.parts
    }

    /// Rejects an empty composition.
    pub(crate) fn nonempty(&self) -> Result<&Self> {
        if self.gaussian() == 0.0 && self.parts.is_empty() {
            return Err(Error::NothingComposed);
        }
        Ok(self)
    }

    /// The directions to consider; the worst one counts. The one that is usually the worst comes
    /// first, because the other is not computed where it provably stays below.
    pub(crate) const fn directions(&self) -> &'static [Direction] {
        if self.adjacency.is_replace() {
            &[Direction::Remove]
        } else {
            &[Direction::Remove, Direction::Add]
        }
    }

    /// Whether some mechanism that fits the events has exactly the composed losses, so that no
    /// bound below them can be true. The supremum over all mechanisms of bounded range is attained
    /// at one epsilon at a time, that is, by a single run but not by a composition.
    pub(crate) fn is_attained(&self) -> bool {
        let range =
            |part: &Part| matches!(part, Part::Pair(Pair::Envelope(Loss::BoundedRange { .. })));
        if self.gaussian() == 0.0 && matches!(&self.parts[..], [(part, 1)] if range(part)) {
            return true;
        }
        let envelope = |part: &Part| matches!(part, Part::Pair(Pair::Envelope(_)));
        !self.parts.iter().any(|(part, _)| envelope(part))
    }

    /// The privacy losses in one direction with their counts, the Gaussian one first.
    ///
    /// # Errors
    /// [`Error::UnsupportedEvent`] if a part is known only by a Renyi bound.
    pub(crate) fn losses(&self, direction: Direction) -> Result<Vec<(Loss, u64)>> {
        let gaussian = (self.gaussian() > 0.0).then(|| {
            let mu_squared = self.gaussian();
            Ok((Loss::Gaussian { mu_squared }, 1))
        });
        let others = self.parts.iter().map(|(part, count)| match part {
            Part::Pair(pair) => Ok((pair.loss(direction), *count)),
            Part::Zcdp { .. } => Err(self.unsupported("zcdp")),
            Part::Rdp { .. } => Err(self.unsupported("rdp")),
            Part::RandomAllocation { .. } => Err(self.unsupported("random-allocation")),
            Part::RepeatAndSelect { .. } => Err(self.unsupported("repeat-and-select")),
        });
        gaussian.into_iter().chain(others).collect()
    }

    fn unsupported(&self, event: &'static str) -> Error {
        Error::UnsupportedEvent {
            event,
            accountant: "privacy loss distributions",
            adjacency: self.adjacency,
        }
    }
}

fn too_many() -> Error {
    Error::Param(ParamError {
        name: "count",
        value: f64::INFINITY,
        expected: "counts whose total fits 64 bits",
    })
}

/// One mechanism, with its sensitivity under the composition's adjacency taken into account.
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
    /// Each unit takes part in `n_selected` of `n_steps` Gaussian steps, chosen at random.
    RandomAllocation {
        /// Distance divided by the standard deviation of one step. Under replacement this is still
        /// the distance under add/remove, and `replace` is set.
        mu: f64,
        /// Number of steps that a unit takes part in.
        n_selected: u64,
        /// Number of steps in total.
        n_steps: u64,
        /// Whether neighbours differ by replacement.
        replace: bool,
    },
    /// The best result of a random number of runs.
    RepeatAndSelect {
        /// One run.
        run: Box<Composition>,
        /// Distribution of the number of runs.
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
    /// The same, if no mechanism that fits the event needs to have exactly this loss: an upper
    /// bound only.
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
        /// Sensitivity divided by scale.
        epsilon: f64,
        /// Sampling probability.
        q: f64,
    },
    /// (epsilon, delta)-DP on a Poisson sample, or another pair of two finite losses.
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

/// A hash that is equal for equal parts. Different parts rarely share one, and candidates found by
/// it are compared.
fn fingerprint(part: &Part) -> u64 {
    let mut key = Key(DefaultHasher::new());
    key.part(part);
    key.0.finish()
}

struct Key(DefaultHasher);

impl Key {
    fn kind(&mut self, value: &impl Hash) {
        value.hash(&mut self.0);
    }

    /// The bit patterns of numbers; 0 and -0 are equal and have the same.
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

#[cfg(test)]
mod tests {
    use super::*;

    use dp_core::DpEvent;

    const ADJACENCY: Adjacency = Adjacency::AddRemoveUser;

    fn laplaces(n: u32) -> Vec<DpEvent> {
        let scale = |i: u32| 10.0 + f64::from(i % (n / 2)) * 1e-3;
        (0..n).map(|i| DpEvent::laplace(scale(i))).collect()
    }

    /// Regression test: quadratic merging took ten seconds.
    #[test]
    fn many_distinct_parts_merge_in_the_order_they_came() {
        let n = 100_000;
        let start = std::time::Instant::now();
        let events = laplaces(n);
        let mut singly = Composition::new(ADJACENCY);
        for event in &events {
            singly.add(event, 1).unwrap();
        }
        let at_once = Composition::of(&DpEvent::Composed { events }, ADJACENCY).unwrap();
        assert_eq!(singly, at_once);
        assert_eq!(singly.parts().len(), n as usize / 2);
        for (i, (part, count)) in singly.parts().iter().enumerate() {
            let epsilon = crate::engines::rounding::div_up(1.0, 10.0 + i as f64 * 1e-3);
            let loss = Loss::Laplace { epsilon };
            assert_eq!((part, *count), (&Part::Pair(Pair::Symmetric(loss)), 2));
        }
        assert!(start.elapsed().as_secs() < 3, "{:?}", start.elapsed());
    }

    #[test]
    fn equal_parts_join_and_others_do_not() {
        let mixture =
            |p: f64, shift: f64| DpEvent::mixture_of_gaussians(2.0, [shift, 1.0], [1.0 - p, p]);
        let mut composition = Composition::new(ADJACENCY);
        for event in [
            mixture(0.25, 0.0),
            mixture(0.5, 0.0),
            mixture(0.25, -0.0),
            mixture(0.25, 0.5),
        ] {
            composition.add(&event, 3).unwrap();
        }
        let counts: Vec<u64> = composition.parts().iter().map(|(_, n)| *n).collect();
        assert_eq!(counts, [6, 3, 3]);
        let before = composition.clone();
        assert!(composition.add(&mixture(0.25, 0.0), u64::MAX).is_err());
        assert_eq!(composition, before);
    }
}
