//! The Renyi divergence of a composition as a function of the order; its terms include the best of
//! a random number of runs.

use dp_core::Stopping;

use super::allocation::Allocation;
use crate::engines::composition::{Composition, Pair, Part};
use crate::engines::gdp;
use crate::engines::loss::{Direction, LogMoment, Loss, bounded_range_renyi};
use crate::engines::rdp::conversion::log_tail;
use crate::engines::rdp::{minimum, minimum_on};
use crate::engines::rounding::{count_up, mul_up};
use crate::{Error, Result};

/// The data needed to evaluate K(s) = ln `E_P`[e^{sL}; L finite] of a composition at many s.
///
/// A part with a dominating pair contributes its own K in each direction, a part known by Renyi
/// bounds contributes s times the bound in both. The K of such a mixed sum holds for adaptive
/// composition for the following reason. By Blackwell's theorem, a mechanism dominated by a pair is
/// a randomised function of one sample of the pair, so revealing that sample instead only helps an
/// adversary. Samples of different pairs are independent of everything else, and the other parts
/// contribute at most e^{s r} each, whatever came before. The event that any sample has an infinite
/// loss has probability 1 - Π (1 - `m_i`), and outside that event the moments multiply.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Curve {
    /// mu^2 of all Gaussian parts.
    gaussian: f64,
    terms: Vec<(Term, f64)>,
    directions: &'static [Direction],
}

#[derive(Debug, Clone, PartialEq)]
enum Term {
    /// One loss per direction, or one for both.
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
    /// Whether `value` is K itself and not an upper bound.
    pub(crate) exact: bool,
}

impl Total {
    const INFINITE: Self = Self {
        value: f64::INFINITY,
        error: 0.0,
        exact: true,
    };

    /// An upper bound on the true value.
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
            // rounding errors of the product and the sum, included
            total.error += count * (error + 1e-15 * moment.log.abs());
            total.exact &= moment.exact;
        }
        if total.error.is_nan() {
            total.error = 0.0;
        }
        total
    }

    /// K(s) in the worse direction; infinite if a loss can be infinite.
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

    /// The largest finite loss: the composition is (this, infinite mass)-DP.
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

    /// The points where the computed K jumps upwards, ascending, if it is convex in between, so
    /// that the function minimised over orders decreases and then increases on each piece. K itself
    /// is convex; bounds may not be.
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

    /// Orders beyond which a part is unknown: these are always tried.
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

    /// mu^2 if all mechanisms are Gaussian.
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

    /// Whether K in the direction remove is nowhere below K in the direction add: both are equal,
    /// or it is sampling of a pair that is exchanged by a reflection (Mironov, Talwar, Zhang, arXiv
    /// 1908.10530, Theorem 5).
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
                // s + 1 is rounded: an order slightly above the known one is treated as equal to
                // it.
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

/// Golden-section steps for the inner optimisation over orders.
const REFINEMENTS: u32 = 20;
/// Range of order - 1 in inner optimisations.
const RANGE: (f64, f64) = (1e-6, 1e8);
/// Points of the coarse search per inner optimisation.
const N_POINTS: usize = 160;
/// The grid of a run's curve from which failure probabilities are read.
const GRID: (f64, f64) = (1e-3, 1e5);
const N_GRID: usize = 400;

/// The best of a random number of runs of one composition: repeat and select.
///
/// Source: Papernot, Steinke, arXiv 2110.03620 v2, Theorems 2 and 6. With f the generating function
/// of the number of runs T, the probability that the best output is y is Q(y) times an average of
/// f'(x) over x between Q(outputs below y) and Q(outputs up to y). By joint convexity of u^a
/// v^{1-a}, the moment of the selected output is at most that of one run times the largest f'(x)^a
/// f'(x')^{1-a}, where 1-x and 1-x' are the probabilities of one event under the two neighbours,
/// plus P(T = 0) for the case that nothing is published.
///
/// Truncated negative binomial: f'(x) = E\[T\] γ^{1+η} (1 - (1-γ) x)^{-1-η}, so Renyi divergences r(a) and
/// r(b) of one run, b >= 1, give
///
/// ```text
/// r'(a) = r(a) + (1+η) ((1 - 1/b) r(b) + ln(1/γ) / b) + ln E[T] / (a-1)
/// ```
///
/// Poisson of mean m: f'(x) = m e^{m(x-1)}. If one run is (e, d)-DP with e^e <= 1 + 1/(a-1), the
/// factor is at most m e^{(a-1) m d}, hence
///
/// ```text
/// e^{(a-1) r'(a)} <= e^{-m} + m e^{(a-1) (r(a) + m d)}
/// ```
///
/// The paper states the second term alone. This cannot hold for m < 1, where it would be negative
/// for a mechanism that ignores its input; here the term e^{-m} for zero runs is included for every
/// m.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Selection {
    run: Curve,
    stopping: Prepared,
}

#[derive(Debug, Clone, PartialEq)]
enum Prepared {
    /// The term added to the divergence of one run, and ln E\[T\].
    NegativeBinomial { added: f64, log_mean: f64 },
    /// The failure probability of one run requires its curve, which is stored on a grid: t with
    /// K(t) + ln tail(t).
    Poisson { mean: f64, grid: Vec<(f64, f64)> },
}

impl Selection {
    pub(crate) fn new(run: Curve, stopping: Stopping) -> Self {
        let binomial = |shape: f64, gamma: f64| Prepared::NegativeBinomial {
            added: added(&run, shape, gamma),
            log_mean: log_mean(shape, gamma),
        };
        let prepared = match stopping {
            Stopping::TruncatedNegativeBinomial {
                shape,
                success_probability,
            } => binomial(shape, success_probability),
            Stopping::Logarithmic {
                success_probability,
            } => binomial(0.0, success_probability),
            Stopping::Poisson { mean } => {
                let at = |t: f64| (t, run.worst(t).upper() + log_tail(t));
                let grid = points(&run, GRID, N_GRID).into_iter().map(at).collect();
                Prepared::Poisson { mean, grid }
            }
        };
        Self {
            run,
            stopping: prepared,
        }
    }

    /// (a-1) r'(a) at s = a - 1, and a bound on its error.
    pub(crate) fn moment(&self, s: f64) -> (LogMoment, f64) {
        let one = self.run.worst(s).upper();
        let log = match &self.stopping {
            Prepared::NegativeBinomial { added, log_mean } => one + s * added + log_mean,
            Prepared::Poisson { mean, grid } => {
                let failure = failure(&self.run, grid, s);
                let second = libm::log(*mean) + one + s * mean * failure;
                log_add(-mean, second)
            }
        };
        (LogMoment::at_most(log), 4e-15 * log.abs())
    }

    /// For a run with largest loss e: (2 + η) e, the limit for large orders; unknown for Poisson.
    pub(crate) fn max_loss(&self) -> f64 {
        match &self.stopping {
            Prepared::NegativeBinomial { added, .. } => largest(&self.run) + added,
            Prepared::Poisson { .. } => f64::INFINITY,
        }
    }

    /// See [`Curve::pieces`].
    pub(crate) fn pieces(&self) -> Option<Vec<f64>> {
        match self.stopping {
            Prepared::NegativeBinomial { .. } => self.run.pieces(),
            Prepared::Poisson { .. } => None,
        }
    }

    pub(crate) fn corners(&self) -> Vec<f64> {
        self.run.corners()
    }
}

/// The largest loss of a run in either direction; infinite if a run can fail.
fn largest(run: &Curve) -> f64 {
    let each = run.directions().iter().map(|&d| {
        if run.infinite_mass(d) > 0.0 {
            f64::INFINITY
        } else {
            run.max_loss(d)
        }
    });
    each.fold(0.0, f64::max)
}

/// The smallest (1+η) ((1 - 1/b) r(b) + ln(1/γ)/b) over b >= 1, including infinity, rounded up.
fn added(run: &Curve, shape: f64, gamma: f64) -> f64 {
    let log_inverse = -libm::log(gamma);
    let at = |s: f64| (run.worst(s).upper() + log_inverse) / (s + 1.0);
    let best = search(run, at).min(log_inverse).min(largest(run));
    (1.0 + shape) * best * (1.0 + 4e-15)
}

/// Points t = order - 1 of inner optimisations.
fn points(run: &Curve, range: (f64, f64), n: usize) -> Vec<f64> {
    let step = libm::log(range.1 / range.0) / n as f64;
    let mut points: Vec<f64> = (0..=n)
        .map(|i| range.0 * libm::exp(step * i as f64))
        .collect();
    points.extend(run.corners().iter().map(|order| order - 1.0));
    points.sort_by(f64::total_cmp);
    points
}

/// The smallest of `f` over the points and around the best of them.
fn search(run: &Curve, f: impl Fn(f64) -> f64) -> f64 {
    let points = points(run, RANGE, N_POINTS);
    let (i, best) = minimum_on(&points, run.pieces().as_deref(), &f);
    if best == f64::INFINITY {
        return best;
    }
    let low = points[i.saturating_sub(1)];
    let high = points[(i + 1).min(points.len() - 1)];
    minimum(low, high, REFINEMENTS, f).1.min(best)
}

/// ln E\[T\] of the truncated negative binomial: E\[T\] = η (1-γ) / (γ (1 - γ^η)), for η = 0 the
/// logarithmic (1/γ - 1) / ln(1/γ).
fn log_mean(shape: f64, gamma: f64) -> f64 {
    let x = shape * libm::log(gamma);
    // η / (1 - γ^η) = (x / (e^x - 1)) / ln(1/γ)
    let ratio = if x == 0.0 { 1.0 } else { x / libm::expm1(x) };
    let mean = (1.0 - gamma) / gamma * ratio / -libm::log(gamma);
    libm::log(mean)
}

/// The smallest known d for which one run is (ln(1 + 1/s), d)-DP, rounded up.
fn failure(run: &Curve, grid: &[(f64, f64)], s: f64) -> f64 {
    let epsilon = libm::log1p(1.0 / s) * (1.0 - 1e-15);
    if let Some(mu_squared) = run.only_gaussian() {
        let mu = gdp::from_mu_squared(mu_squared).mu;
        return (gdp::delta(mu, epsilon) * (1.0 + 1e-11)).min(1.0);
    }
    if largest(run) <= epsilon {
        return 0.0;
    }
    let logs = grid.iter().map(|&(t, sum)| {
        let rounding = 2e-15 * (t * epsilon + sum.abs());
        sum - t * epsilon + rounding
    });
    libm::exp(logs.fold(0.0, f64::min))
}

/// ln(e^a + e^b).
fn log_add(a: f64, b: f64) -> f64 {
    if b == f64::INFINITY {
        return b;
    }
    a.max(b) + libm::log1p(libm::exp(-(a - b).abs()))
}
