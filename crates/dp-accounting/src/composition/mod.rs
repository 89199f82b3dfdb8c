//! What was composed, flattened: Gaussian cost in one sum, everything else as counted parts.

mod part;
mod resolve;

use dp_core::{Adjacency, DpEvent, ParamError};

use crate::gdp::finite_cost;
use crate::loss::{Direction, Loss};
use crate::rounding::{UpwardSum, count_up, mul_up};
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
}

impl Composition {
    /// Nothing yet.
    pub(crate) const fn new(adjacency: Adjacency) -> Self {
        Self {
            adjacency,
            gaussian: UpwardSum::EMPTY,
            parts: Vec::new(),
        }
    }

    /// Gaussian mechanisms with a total of `mu_squared`.
    pub(crate) const fn of_gaussian(mu_squared: UpwardSum, adjacency: Adjacency) -> Self {
        Self {
            adjacency,
            gaussian: mu_squared,
            parts: Vec::new(),
        }
    }

    /// The flattened form of one event.
    pub(crate) fn of(event: &DpEvent, adjacency: Adjacency) -> Result<Self> {
        let mut composition = Self::new(adjacency);
        composition.absorb(event, 1)?;
        Ok(composition)
    }

    /// Adds `count` runs of `event`; on an error nothing changes.
    pub(crate) fn add(&mut self, event: &DpEvent, count: u64) -> Result<()> {
        let mut addition = Self::new(self.adjacency);
        addition.absorb(event, count)?;
        self.merge(addition)
    }

    /// Adds all of `other`; on an error nothing changes.
    fn merge(&mut self, other: Self) -> Result<()> {
        let gaussian = self.gaussian.plus(other.gaussian());
        finite_cost(gaussian.total())?;
        let mut totals = Vec::with_capacity(other.parts.len());
        for (part, count) in &other.parts {
            let place = self.parts.iter().position(|(known, _)| known == part);
            let before = place.map_or(0, |i| self.parts[i].1);
            totals.push((place, before.checked_add(*count).ok_or_else(too_many)?));
        }
        self.gaussian = gaussian;
        for ((part, _), (place, total)) in other.parts.into_iter().zip(totals) {
            match place {
                Some(i) => self.parts[i].1 = total,
                None => self.parts.push((part, total)),
            }
        }
        Ok(())
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
