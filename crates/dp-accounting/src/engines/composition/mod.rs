//! What was composed, flattened: Gaussian cost in one sum, everything else as counted parts.

mod fingerprint;
mod part;
mod resolve;

use std::collections::BTreeSet;

use dp_core::{Adjacency, DpEvent, ParamError};

use crate::engines::gdp::finite_cost;
use crate::engines::loss::{Direction, Loss};
use crate::engines::rounding::{UpwardSum, count_up, mul_up};
use crate::{Error, Result};

pub(crate) use part::{Pair, Part};

/// Independent mechanisms under one adjacency, each with its count. The order of composition does
/// not matter to any accountant and is not kept.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Composition {
    adjacency: Adjacency,
    /// mu^2 of all Gaussian mechanisms together.
    gaussian: UpwardSum,
    parts: Vec<(Part, u64)>,
    /// Fingerprints of the parts with their places.
    places: BTreeSet<(u64, usize)>,
}

impl Composition {
    /// Nothing yet.
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

    /// The flattened form of one event.
    pub(crate) fn of(event: &DpEvent, adjacency: Adjacency) -> Result<Self> {
        Self::new(adjacency).addition(event, 1)
    }

    /// Adds `count` runs of `event`; on an error nothing changes.
    pub(crate) fn add(&mut self, event: &DpEvent, count: u64) -> Result<()> {
        self.merge(self.addition(event, count)?)
    }

    /// `count` runs of `event` alone, under the same adjacency. All that follows may recurse.
    pub(crate) fn addition(&self, event: &DpEvent, count: u64) -> Result<Self> {
        event.check_depth()?;
        let mut addition = Self::new(self.adjacency);
        addition.absorb(event, count)?;
        Ok(addition)
    }

    /// Adds all of `other`; on an error nothing changes.
    pub(crate) fn merge(&mut self, other: Self) -> Result<()> {
        let gaussian = self.gaussian.plus(other.gaussian());
        finite_cost(gaussian.total())?;
        let mut totals = Vec::with_capacity(other.parts.len());
        for (part, count) in &other.parts {
            let key = fingerprint::of(part);
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

    /// Where a part equal to `part` is kept.
    fn place(&self, part: &Part, key: u64) -> Option<usize> {
        let alike = self.places.range((key, 0)..=(key, usize::MAX));
        alike.map(|&(_, i)| i).find(|&i| self.parts[i].0 == *part)
    }

    fn absorb(&mut self, event: &DpEvent, count: u64) -> Result<()> {
        if count == 0 {
            return Err(zero_count());
        }
        match event {
            DpEvent::Composed { events } if events.is_empty() => Err(Error::NothingComposed),
            DpEvent::Composed { events } => events.iter().try_for_each(|e| self.absorb(e, count)),
            DpEvent::Repeated { event, count: n } => self.absorb(event, multiply(count, *n)?),
            leaf => {
                let mut single = Self::new(self.adjacency);
                match resolve::resolve(leaf, self.adjacency)? {
                    Part::Pair(Pair::Gaussian { mu_squared }) => {
                        let cost = mul_up(mu_squared, count_up(count));
                        single.gaussian = UpwardSum::EMPTY.plus(cost);
                    }
                    part => single.parts.push((part, count)),
                }
                self.merge(single)
            }
        }
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

    /// Refuses an empty composition.
    pub(crate) fn nonempty(&self) -> Result<&Self> {
        if self.gaussian() == 0.0 && self.parts.is_empty() {
            return Err(Error::NothingComposed);
        }
        Ok(self)
    }

    /// The directions of which the worst counts.
    pub(crate) const fn directions(&self) -> &'static [Direction] {
        if self.adjacency.is_replace() {
            &[Direction::Remove]
        } else {
            &[Direction::Remove, Direction::Add]
        }
    }

    /// Whether some mechanism that fits the events has exactly the composed losses, so that no bound
    /// below them can be true. The supremum over all mechanisms of bounded range is attained at
    /// one epsilon at a time, so by a single run but not by a composition.
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
    /// [`Error::UnsupportedEvent`] when a part is known only by a Renyi bound.
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

fn multiply(a: u64, b: u64) -> Result<u64> {
    if a == 0 || b == 0 {
        return Err(zero_count());
    }
    a.checked_mul(b).ok_or_else(too_many)
}

fn zero_count() -> Error {
    Error::Param(ParamError {
        name: "count",
        value: 0.0,
        expected: "a whole number, 1 or above",
    })
}

fn too_many() -> Error {
    Error::Param(ParamError {
        name: "count",
        value: f64::INFINITY,
        expected: "counts whose total fits 64 bits",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADJACENCY: Adjacency = Adjacency::AddRemoveUser;

    fn laplaces(n: u32) -> Vec<DpEvent> {
        let scale = |i: u32| 10.0 + f64::from(i % (n / 2)) * 1e-3;
        (0..n).map(|i| DpEvent::laplace(scale(i))).collect()
    }

    /// Quadratic merging took ten seconds.
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
        let mixture = |p: f64, shift: f64| DpEvent::MixtureOfGaussians {
            sigma: 2.0,
            sensitivities: vec![shift, 1.0],
            probabilities: vec![1.0 - p, p],
        };
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
