//! The Renyi divergence of a composition as a function of the order.

use super::allocation::Allocation;
use crate::engines::composition::{Composition, Pair, Part};
use crate::engines::loss::{Direction, LogMoment, Loss, bounded_range_renyi};
use crate::engines::rounding::{count_up, mul_up};
use crate::engines::tuning::Selection;
use crate::{Error, Result};

/// What is needed to evaluate K(s) = ln `E_P`[e^{sL}; L finite] of a composition at many s.
///
/// A part with a dominating pair counts with its own K in each direction, a part known by Renyi
/// bounds with s times the bound in both. That the K of such a mixed sum holds for adaptive
/// composition is seen like this: by Blackwell's theorem a mechanism dominated by a pair is a
/// randomised function of one sample of the pair, so revealing that sample instead only helps an
/// adversary. Samples of different pairs are independent of all else, and the others contribute at most
/// e^{s r} each whatever came before. The event that any sample has an infinite loss has
/// probability 1 - Π (1 - `m_i`), and off that event the moments multiply.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Curve {
    /// mu^2 of all Gaussian parts.
    gaussian: f64,
    terms: Vec<(Term, f64)>,
    directions: &'static [Direction],
}

#[derive(Debug, Clone, PartialEq)]
enum Term {
    /// One loss for each direction, or one for both.
    Losses(Vec<Loss>),
    BoundedRange(f64),
    Zcdp(f64),
    Point {
        order: f64,
        divergence: f64,
    },
    Allocation(Box<Allocation>),
    Selection(Box<Selection>),
}

/// K(s) of a composition.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Total {
    pub(crate) value: f64,
    /// A bound on the error of `value`.
    pub(crate) error: f64,
    /// Whether `value` is K itself and not a bound from above.
    pub(crate) exact: bool,
}

impl Total {
    const INFINITE: Self = Self {
        value: f64::INFINITY,
        error: 0.0,
        exact: true,
    };

    /// Never below the truth.
    pub(crate) fn upper(self) -> f64 {
        self.value + self.error
    }

    fn worse(self, other: Self) -> Self {
        let value = self.value.max(other.value);
        if value == f64::INFINITY {
            return Self::INFINITE;
        }
        Self {
            value,
            error: self.upper().max(other.upper()) - value,
            exact: self.exact && other.exact,
        }
    }
}

impl Curve {
    pub(crate) fn of(composition: &Composition) -> Result<Self> {
        let directions = composition.directions();
        let terms = composition
            .parts()
            .iter()
            .map(|(part, count)| Ok((Term::of(part, directions)?, count_up(*count))));
        let terms = terms.collect::<Result<Vec<_>>>()?;
        let one_suffices = terms.iter().all(|(t, _)| t.remove_suffices());
        Ok(Self {
            gaussian: composition.gaussian(),
            terms,
            directions: if one_suffices {
                &[Direction::Remove]
            } else {
                directions
            },
        })
    }

    pub(crate) const fn directions(&self) -> &'static [Direction] {
        self.directions
    }

    /// K(s) for s > 0.
    pub(crate) fn total(&self, direction: Direction, s: f64) -> Total {
        let gaussian = 0.5 * self.gaussian * s * (s + 1.0);
        let mut total = Total {
            value: gaussian,
            error: 2e-15 * gaussian,
            exact: true,
        };
        for (term, count) in &self.terms {
            let (moment, error) = term.moment(direction, s);
            total.value += count * moment.log;
            // Rounding of the product and the sum included.
            total.error += count * (error + 1e-15 * moment.log.abs());
            total.exact &= moment.exact;
        }
        if total.error.is_nan() {
            total.error = 0.0;
        }
        total
    }

    /// K(s) in the worse direction; infinite where a loss can be infinite.
    pub(crate) fn worst(&self, s: f64) -> Total {
        let totals = self.directions.iter().map(|&direction| {
            if self.has_infinite_mass(direction) {
                Total::INFINITE
            } else {
                self.total(direction, s)
            }
        });
        totals.reduce(Total::worse).unwrap_or(Total::INFINITE)
    }

    fn has_infinite_mass(&self, direction: Direction) -> bool {
        self.terms
            .iter()
            .any(|(t, _)| t.infinite_mass(direction) > 0.0)
    }

    /// P(L = ∞), rounded up.
    pub(crate) fn infinite_mass(&self, direction: Direction) -> f64 {
        let masses = self
            .terms
            .iter()
            .map(|(t, n)| (t.infinite_mass(direction), *n));
        let some: Vec<(f64, f64)> = masses.filter(|(m, _)| *m > 0.0).collect();
        match some.as_slice() {
            [] => 0.0,
            &[(m, n)] if n <= 1.0 => m,
            many => {
                let log: f64 = many.iter().map(|(m, n)| n * libm::log1p(-m)).sum();
                (-libm::expm1(log) * (1.0 + 1e-14)).min(1.0)
            }
        }
    }

    /// The largest finite loss: (this, infinite mass)-DP holds.
    pub(crate) fn max_loss(&self, direction: Direction) -> f64 {
        if self.gaussian > 0.0 {
            return f64::INFINITY;
        }
        let sum: f64 = self
            .terms
            .iter()
            .map(|(t, n)| n * t.max_loss(direction))
            .sum();
        sum * (1.0 + 1e-15 * (1.0 + self.terms.len() as f64))
    }

    /// Where K as computed jumps upwards, ascending, if it is convex in between, so that what is
    /// minimised over orders falls and then rises there. K itself is convex; bounds may not be.
    pub(crate) fn pieces(&self) -> Option<Vec<f64>> {
        let mut jumps = Vec::new();
        for (term, _) in &self.terms {
            match term {
                Term::Allocation(allocation) => jumps.extend(allocation.jump()),
                Term::Selection(selection) => jumps.extend(selection.pieces()?),
                _ => (),
            }
        }
        jumps.sort_by(f64::total_cmp);
        Some(jumps)
    }

    /// Orders beyond which a part is unknown: always worth looking at.
    pub(crate) fn corners(&self) -> Vec<f64> {
        self.terms
            .iter()
            .flat_map(|(t, _)| match t {
                Term::Point { order, .. } => vec![*order],
                Term::Selection(selection) => selection.corners(),
                _ => Vec::new(),
            })
            .collect()
    }

    /// mu^2 when there is nothing but Gaussian mechanisms.
    pub(crate) fn only_gaussian(&self) -> Option<f64> {
        self.terms.is_empty().then_some(self.gaussian)
    }
}

impl Term {
    fn of(part: &Part, directions: &[Direction]) -> Result<Self> {
        Ok(match part {
            &Part::Pair(Pair::Envelope(Loss::BoundedRange { epsilon })) => {
                Self::BoundedRange(epsilon)
            }
            Part::Pair(Pair::Symmetric(loss) | Pair::Envelope(loss)) => {
                Self::Losses(vec![loss.clone()])
            }
            Part::Pair(pair) => Self::Losses(directions.iter().map(|&d| pair.loss(d)).collect()),
            &Part::Zcdp { rho } => Self::Zcdp(rho),
            &Part::Rdp { order, epsilon } => Self::Point {
                order,
                divergence: epsilon,
            },
            &Part::RandomAllocation {
                mu,
                n_selected,
                n_steps,
                replace,
            } => Self::Allocation(Box::new(Allocation::new(mu, n_selected, n_steps, replace))),
            Part::RepeatAndSelect { run, stopping } => {
                Self::Selection(Box::new(Selection::new(Curve::of(run)?, *stopping)))
            }
        })
    }

    /// Whether K in the direction remove is nowhere below K in the direction add: alike, or sampling
    /// of a pair that a reflection exchanges (Mironov, Talwar, Zhang, arXiv 1908.10530, Theorem 5).
    fn remove_suffices(&self) -> bool {
        match self {
            Self::Losses(losses) => match losses.as_slice() {
                [_] => true,
                [Loss::Mixture(mixture), ..] => {
                    mixture.shifts.len() == 2 && mixture.shifts[0] == 0.0
                }
                [Loss::SampledLaplace { .. }, ..] => true,
                _ => false,
            },
            Self::Allocation(_) => false,
            _ => true,
        }
    }

    fn loss(losses: &[Loss], direction: Direction) -> Option<&Loss> {
        match direction {
            Direction::Remove => losses.first(),
            Direction::Add => losses.last(),
        }
    }

    /// K(s) and a bound on its error.
    fn moment(&self, direction: Direction, s: f64) -> (LogMoment, f64) {
        match self {
            Self::Losses(losses) => match Self::loss(losses, direction) {
                Some(loss) => {
                    let moment = loss.log_moment(s);
                    (moment, loss.log_moment_error(s, moment.log))
                }
                None => (LogMoment::at_most(f64::INFINITY), 0.0),
            },
            &Self::BoundedRange(epsilon) => {
                let log = bounded_range_renyi(epsilon, s);
                (LogMoment::at_most(log), 1e-13 * log)
            }
            &Self::Zcdp(rho) => {
                let log = mul_up(rho, mul_up(s, s + 1.0));
                (LogMoment::at_most(log), 2e-15 * log)
            }
            &Self::Point { order, divergence } => {
                // s + 1 is rounded: an order a hair above the known one is taken for it.
                let known = s + 1.0 <= order * (1.0 + 4.0 * f64::EPSILON);
                let log = if known { s * divergence } else { f64::INFINITY };
                (LogMoment::at_most(log), 0.0)
            }
            Self::Allocation(allocation) => allocation.moment(direction, s),
            Self::Selection(selection) => selection.moment(s),
        }
    }

    fn infinite_mass(&self, direction: Direction) -> f64 {
        match self {
            Self::Losses(losses) => Self::loss(losses, direction).map_or(0.0, Loss::infinite_mass),
            _ => 0.0,
        }
    }

    fn max_loss(&self, direction: Direction) -> f64 {
        match self {
            Self::Losses(losses) => {
                Self::loss(losses, direction).map_or(f64::INFINITY, Loss::max_finite)
            }
            &Self::BoundedRange(epsilon) => epsilon,
            Self::Zcdp(_) | Self::Point { .. } | Self::Allocation(_) => f64::INFINITY,
            Self::Selection(selection) => selection.max_loss(),
        }
    }
}

/// No order gives a finite bound.
pub(super) const fn no_finite_order() -> Error {
    Error::NotCertified {
        method: "rdp",
        reason: "the Renyi divergence is infinite at every order",
    }
}
