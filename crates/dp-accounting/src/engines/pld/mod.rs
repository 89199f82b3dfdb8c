//! Privacy loss distributions, discretised from both sides.
//!
//! Every loss becomes two distributions on a lattice: one whose profile is nowhere below the true
//! one ("connect the dots": Doroshenko, Ghazi, Kamath, Kumar, Manurangsi, arXiv 2207.04380) and one
//! whose profile is nowhere above it ([`merged`]), both with a second-order error. Domination is
//! preserved by composition (Zhu, Dong, Wang, arXiv 2106.08567, Theorem 10), so the composed pair
//! brackets the true profile. The composition is exact in the Fourier domain, under an exponential
//! tilt that makes the losses near epsilon the likely ones ([`composed`]), so that a delta of
//! 1e-300 keeps its relative accuracy.

mod bracket;
mod cells;
mod composed;
mod lattice;
mod merged;
mod plan;
mod sketch;
mod spectrum;
mod tilt;
mod transform;

use bracket::{Bracket, EFFORTS, refused};
use dp_core::{Adjacency, DpEvent, params};
use plan::Effort;

use crate::Result;
use crate::engines::accountant::{Accountant, Method, PrivacyBound};
use crate::engines::composition::Composition;
use crate::engines::loss::Loss;
use crate::engines::saddle_point::{Ask, stays_below};

/// How often a bracket that is not narrow is recomputed with finer cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rounds {
    /// Until it is narrow, at most three times.
    All,
    /// Once.
    One,
}

impl Rounds {
    const fn efforts(self) -> &'static [Effort] {
        match self {
            Self::All => &EFFORTS,
            Self::One => EFFORTS.split_at(1).0,
        }
    }
}

/// The bracket of epsilon at `delta`, over the directions of `composition`.
pub(crate) fn epsilon(
    composition: &Composition,
    delta: f64,
    rounds: Rounds,
) -> Result<PrivacyBound> {
    worst(composition, Ask::EpsilonAt(delta), |losses, known| {
        bracket::epsilon(losses, delta, known, rounds.efforts())
    })
}

/// The bracket of delta at `epsilon`, over the directions of `composition`.
pub(crate) fn delta(
    composition: &Composition,
    epsilon: f64,
    rounds: Rounds,
) -> Result<PrivacyBound> {
    worst(composition, Ask::DeltaAt(epsilon), |losses, known| {
        bracket::delta(losses, epsilon, known, rounds.efforts())
    })
}

/// The worst direction. `bracket` receives the value that the others are known to reach: a
/// direction that stays below it needs less accuracy, or no computation at all.
fn worst(
    composition: &Composition,
    ask: Ask,
    bracket: impl Fn(&[(Loss, f64)], f64) -> Result<Bracket>,
) -> Result<PrivacyBound> {
    composition.nonempty()?;
    let (mut lower, mut upper) = (0.0_f64, 0.0_f64);
    for losses in distinct(composition)? {
        if stays_below(&losses, ask, lower) {
            continue;
        }
        let found = bracket(&counted(&losses)?, lower)?;
        lower = lower.max(found.lower);
        upper = upper.max(found.upper);
    }
    let lower = lower.min(upper);
    // chords raise the profile by twice as much as merging lowers it
    let value = lower + (upper - lower) / 3.0;
    let adjacency = composition.adjacency();
    Ok(PrivacyBound::bracket(
        value,
        lower,
        upper,
        Method::Pld,
        adjacency,
    ))
}

/// The losses of every direction, only once if they are the same.
fn distinct(composition: &Composition) -> Result<Vec<Vec<(Loss, u64)>>> {
    let mut all: Vec<Vec<(Loss, u64)>> = Vec::new();
    for &direction in composition.directions() {
        let losses = composition.losses(direction)?;
        if !all.contains(&losses) {
            all.push(losses);
        }
    }
    Ok(all)
}

fn counted(losses: &[(Loss, u64)]) -> Result<Vec<(Loss, f64)>> {
    const EXACT: u64 = 1 << 53;
    let counted = |(loss, count): &(Loss, u64)| {
        if *count > EXACT {
            return Err(refused("a count is above 2^53"));
        }
        Ok((loss.clone(), *count as f64))
    };
    losses.iter().map(counted).collect()
}

/// Accountant by privacy loss distributions: every answer is a proved bracket.
///
/// Events known only through a Renyi divergence, random allocation and repeat-and-select have no
/// privacy loss distribution here. They are rejected when an answer is requested.
///
/// # Examples
/// ```
/// use dp_accounting::{Accountant, PldAccountant};
/// use dp_core::{Adjacency, DpEvent};
/// let mut accountant = PldAccountant::new(Adjacency::AddRemoveUser);
/// accountant.compose(&DpEvent::laplace(5.0), 10)?;
/// let bound = accountant.delta(1.0)?;
/// assert!(bound.lower <= 0.0203092809455646 && 0.0203092809455645 <= bound.upper);
/// assert!(bound.upper - bound.lower < 1e-6);
/// # Ok::<(), dp_accounting::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct PldAccountant {
    composition: Composition,
    rounds: Rounds,
}

impl PldAccountant {
    /// Creates an accountant without any events.
    #[must_use]
    pub const fn new(adjacency: Adjacency) -> Self {
        Self {
            composition: Composition::new(adjacency),
            rounds: Rounds::All,
        }
    }

    /// Creates an accountant that computes each bracket only once, without narrowing it. This is
    /// equally sound and takes a fraction of the time if the losses are difficult.
    #[must_use]
    pub const fn quick(adjacency: Adjacency) -> Self {
        Self {
            composition: Composition::new(adjacency),
            rounds: Rounds::One,
        }
    }
}

impl Accountant for PldAccountant {
    fn adjacency(&self) -> Adjacency {
        self.composition.adjacency()
    }

    fn compose(&mut self, event: &DpEvent, count: u64) -> Result<()> {
        self.composition.add(event, count)
    }

    fn epsilon(&self, delta: f64) -> Result<PrivacyBound> {
        params::open_unit("delta", delta)?;
        epsilon(&self.composition, delta, self.rounds)
    }

    fn delta(&self, epsilon: f64) -> Result<PrivacyBound> {
        params::finite_non_negative("epsilon", epsilon)?;
        Ok(delta(&self.composition, epsilon, self.rounds)?.as_delta_at(epsilon))
    }
}
