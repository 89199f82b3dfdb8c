//! The inversion integral: a trapezoidal sum with a bound on its total error.

use num_complex::Complex64;

use super::contour::{Aim, Losses, TiltedComposition, saddle_point};
use super::nodes::exponent;
use super::shifted::{Effort, Transform};
use super::tail;
use super::tilted::{LANES, RESTART, Tilted};
use crate::engines::loss::Loss;
use crate::engines::quadrature::whole;
use crate::engines::rounding::CompensatedSum;

/// Computes delta(epsilon) from the losses of one direction, for every epsilon near the one it was
/// created for.
///
/// ```text
/// I(ε) = E[(1 - e^(ε - L))_+; L finite] = (1/π) ∫_0^∞ Re[e^(K(z) - zε) / (z (z+1))] dt,  z = c + it
/// ```
///
/// The trapezoidal sum with step h over all t is, by Poisson's summation formula, exactly
///
/// ```text
/// Σ_m e^(m W c) I(ε + m W),   W = 2π/h
/// ```
///
/// No term is negative, so the sum is never too small. For m < 0 the terms are at most e^(-|m| W
/// c), for m > 0 at most e^(K(s) - sε - m W (s - c)) for any s > c, because `(1 - e^-y)_+ <= e^(s
/// y)`. The terms beyond the last t are bounded by [`tail::bound`].
pub(super) struct Inversion {
    c: f64,
    h: f64,
    log_mgf: f64,
    mean: f64,
    /// An epsilon at which the inversion is centred.
    centre: f64,
    /// Rate at which ln delta decreases with epsilon near the centre.
    rate: f64,
    /// K(c + it) - K(c) - i t K'(c) at t = 0, h, 2h, ...
    excess: Vec<Complex64>,
    /// A bound on the sum of h Π |ψ|^n / t² beyond the last t.
    tail: f64,
    /// Bound on the error of all quadratures together, relative to t = 0.
    quadrature: f64,
    /// s > c with K(s), for the aliases above.
    above: (f64, f64),
    /// Coefficients of the rounding error of a term in units of rounding: constant and per t.
    rounding: (f64, f64),
    /// Instead of `excess`, the transform of a few sampled mechanisms.
    shifted: Option<Transform>,
}

/// A value with bounds from both sides.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Figure {
    pub(super) lower: f64,
    pub(super) value: f64,
    pub(super) upper: f64,
}

/// Largest number of steps of the trapezoidal sum.
const MAX_STEPS: f64 = 20_000.0;

/// Maximum number of nodes times steps, and an additional amount per loss: a few hundredths of a
/// second.
const MAX_WORK: (f64, f64) = (3e7, 1e5);

/// The same for an estimate: a few thousandths of a second.
const FEW_STEPS: f64 = 2_000.0;
const LITTLE_WORK: f64 = 2e6;

/// An estimate omits values below this, as a logarithm.
const GONE: f64 = -36.0;

/// Standard deviations of the Gaussian part after which its factor alone is below e^-38.
const GAUSSIAN_END: f64 = 8.9;

/// The sum continues up to there if that is at most this many standard deviations of the whole.
const GAUSSIAN_WORTH: f64 = 200.0;

/// The sum continues until the characteristic function is smaller than the floor by this, as a
/// logarithm.
const FURTHER: f64 = -3.0;

/// A logarithm of the characteristic function above which it must decrease by a seventh with every
/// longer reach: a nearly discrete loss never becomes small.
const GIVING_UP: f64 = -25.0;

/// How far below delta the errors are reduced, as a logarithm.
const SAFETY: f64 = 36.0;

impl Inversion {
    /// The inversion for `epsilon`; `None` if no bound on its error is found.
    pub(super) fn new(losses: &mut Losses<'_>, epsilon: f64, start: f64) -> Option<Self> {
        if !losses.any_decays() {
            return None;
        }
        let rough = saddle_point(losses, Aim::Epsilon(epsilon), start)?;
        Self::through(losses, &rough, epsilon)
    }

    /// The inversion along the line through the saddle point `rough`.
    pub(super) fn through(
        losses: &mut Losses<'_>,
        rough: &TiltedComposition,
        epsilon: f64,
    ) -> Option<Self> {
        if let Some(found) =
            Self::shifted(losses, rough, (epsilon, None), Transform::effort(losses))
        {
            return Some(found);
        }
        let floor = tail::floor(&rough.losses, rough.c)?;
        let aim = (epsilon, rough.log_delta(epsilon).min(0.0));
        let (width, above) = period(losses, rough, aim, (false, SAFETY))?;
        Self::with_period(losses, rough, (width, floor), above)
    }

    /// For a few sampled mechanisms: [`Transform`]. The line is moved from the saddle point to
    /// where the period is shortest.
    pub(super) fn shifted(
        losses: &mut Losses<'_>,
        rough: &TiltedComposition,
        (epsilon, log_delta): (f64, Option<f64>),
        effort: &Effort,
    ) -> Option<Self> {
        if !Transform::suits(losses) {
            return None;
        }
        let log_delta = log_delta.unwrap_or_else(|| rough.log_delta(epsilon).min(0.0));
        let runs: f64 = rough.losses.iter().map(|one| one.1 as f64).sum();
        let mut best: Option<(f64, (f64, f64), TiltedComposition)> = None;
        for nearer in NEARER {
            let at = losses.tilted(nearer * rough.c, 0.0)?;
            let excess = at.total.log_mgf - at.c * epsilon - log_delta + libm::log(runs);
            if excess > effort.excess && best.is_some() {
                break;
            }
            let aim = (epsilon, log_delta);
            if let Some((width, above)) = period(losses, &at, aim, (true, effort.safety))
                && best.as_ref().is_none_or(|best| width < best.0)
            {
                best = Some((width, above, at));
            }
        }
        let (width, above, at) = best?;
        let h = 2.0 * std::f64::consts::PI / width;
        let transform = Transform::new(&at, h, (epsilon, log_delta), effort)?;
        let rounding: f64 = (at.losses.iter())
            .map(|(_, n, one)| *n as f64 * one.cumulants.rounding)
            .sum();
        Some(Self {
            c: at.c,
            h,
            log_mgf: at.total.log_mgf,
            mean: at.total.mean,
            centre: epsilon,
            rate: rough.c,
            excess: Vec::new(),
            tail: transform.tail(),
            quadrature: 0.0,
            above,
            rounding: (64.0 + 4.0 * at.total.log_mgf.abs() + rounding, 0.0),
            shifted: Some(transform),
        })
    }

    /// The same with a given period, the floor of [`tail::floor`], and the s, K(s) that bound the
    /// aliases.
    pub(super) fn with_period(
        losses: &mut Losses<'_>,
        rough: &TiltedComposition,
        (width, floor): (f64, f64),
        above: (f64, f64),
    ) -> Option<Self> {
        let h = 2.0 * std::f64::consts::PI / width;
        let c = rough.c;
        let deviation = rough.total.variance.sqrt();
        let gaussian = rough.gaussian_variance().sqrt();
        let closed = GAUSSIAN_END * deviation < GAUSSIAN_WORTH * gaussian;
        let mut reach = if closed {
            GAUSSIAN_END / gaussian
        } else {
            10.0 / deviation
        };
        let mut before = 0.0;
        loop {
            let steps = (reach / h).ceil() + 1.0;
            if steps.is_nan() || steps > MAX_STEPS {
                return None;
            }
            let composition = losses.tilted(c, steps * h)?;
            let allowed = MAX_WORK.0 + MAX_WORK.1 * composition.losses.len() as f64;
            if composition.n_nodes() as f64 * steps > allowed {
                return None;
            }
            let excess = table(&composition, h, whole(steps));
            let gone = excess.iter().position(|e| e.re < floor + FURTHER);
            let end = if closed { Some(excess.len() - 1) } else { gone };
            if let Some(end) = end {
                return Self::close(composition, h, excess, (end, floor), above);
            }
            let reached = excess.last().map_or(0.0, |e| e.re);
            if reached > GIVING_UP.max(floor) && reached > 1.15 * before {
                return None;
            }
            before = reached;
            reach *= 1.6;
        }
    }

    /// Like [`Inversion::through`], but fast and without any bound on its error: only
    /// [`Figure::value`] is meaningful. If the characteristic function decreases slowly, it is
    /// faded out, which changes delta little if the loss has a smooth density.
    pub(super) fn estimate(
        losses: &mut Losses<'_>,
        rough: &TiltedComposition,
        epsilon: f64,
    ) -> Option<Self> {
        let aim = (epsilon, rough.log_delta(epsilon).min(0.0));
        let (width, above) = period(losses, rough, aim, (false, SAFETY))?;
        let (h, c) = (2.0 * std::f64::consts::PI / width, rough.c);
        let mut steps = (10.0 / rough.total.variance.sqrt() / h).ceil() + 1.0;
        loop {
            steps = steps.min(FEW_STEPS);
            let composition = losses.tilted(c, steps * h)?;
            let mut excess = table(&composition, h, whole(steps));
            let gone = excess.iter().position(|e| e.re < GONE);
            let work = composition.n_nodes() as f64 * steps;
            if gone.is_none() && steps < FEW_STEPS && work < LITTLE_WORK {
                steps *= 3.0;
                continue;
            }
            excess.truncate(gone.map_or(excess.len(), |end| end + 1));
            if gone.is_none() {
                fade_out(&mut excess);
            }
            return Some(Self {
                c,
                h,
                log_mgf: composition.total.log_mgf,
                mean: composition.total.mean,
                centre: composition.epsilon(),
                rate: c,
                excess,
                tail: 0.0,
                quadrature: 0.0,
                above,
                rounding: (0.0, 0.0),
                shifted: None,
            });
        }
    }

    fn close(
        composition: TiltedComposition,
        h: f64,
        mut excess: Vec<Complex64>,
        (end, floor): (usize, f64),
        above: (f64, f64),
    ) -> Option<Self> {
        excess.truncate(end + 1);
        let centre = composition.epsilon();
        let TiltedComposition { c, losses, total } = composition;
        let tail = tail::bound(&losses, c, h * end as f64, h, floor)?;
        // A recurrence of RESTART steps, sums over the nodes four at a time, weights and losses;
        // then the logarithm, which is at most 5 times the sum, of every loss in turn.
        let steps = |one: &Tilted| {
            (32 + 8 * RESTART + one.n_nodes() / LANES + 5 * (8 + losses.len())) as f64
        };
        let deviation: f64 = (losses.iter())
            .map(|(_, n, one)| *n as f64 * one.cumulants.absolute * steps(one))
            .sum();
        let drift: f64 = (losses.iter())
            .map(|(_, n, one)| *n as f64 * one.cumulants.mean.abs())
            .sum();
        let rounding: f64 = (losses.iter())
            .map(|(_, n, one)| *n as f64 * one.cumulants.rounding)
            .sum();
        let constant = 64.0 + 4.0 * total.log_mgf.abs() + rounding;
        Some(Self {
            c,
            h,
            log_mgf: total.log_mgf,
            mean: total.mean,
            centre,
            rate: c,
            excess,
            tail,
            quadrature: quadrature(&losses),
            above,
            rounding: (constant, deviation + 10.0 * drift),
            shifted: None,
        })
    }

    /// The bracket of I(epsilon), and its value.
    pub(super) fn delta(&self, epsilon: f64) -> Figure {
        let unit = 0.5 * f64::EPSILON;
        let scale = self.h / std::f64::consts::PI;
        let (mut sum, mut rounding) = (CompensatedSum::default(), 0.0);
        let start = libm::exp(self.log_mgf - self.c * epsilon);
        for (k, excess) in self.excess.iter().enumerate() {
            let t = self.h * k as f64;
            let turn = t * (self.mean - epsilon) + excess.im;
            let size = libm::exp(self.log_mgf - self.c * epsilon + excess.re);
            let weight = if k == 0 { 0.5 * scale } else { scale };
            let z = Complex64::new(self.c, t);
            let kernel = Complex64::from_polar(1.0, turn) / (z * (z + 1.0));
            sum.add(weight * size * kernel.re);
            let (constant, per_t) = self.rounding;
            let error = constant + 8.0 * self.c * epsilon.abs() + t * (per_t + 4.0 * epsilon.abs());
            rounding += weight * size * kernel.norm() * error * unit;
            rounding += weight * start * kernel.norm() * self.quadrature;
        }
        let mut sum = sum.total();
        if let Some(shifted) = &self.shifted {
            sum = start * shifted.at(self.mean - epsilon);
            let error_of_start = 4.0 + self.rounding.0 + 8.0 * self.c * epsilon.abs();
            rounding = start * shifted.error(error_of_start, epsilon);
        }
        let cut = self.tail * start / std::f64::consts::PI * (1.0 + 1e-9);
        let error = rounding + cut;
        let upper = match &self.shifted {
            Some(shifted) => shifted.with_rest(sum + error, epsilon),
            None => sum + error,
        };
        Figure {
            lower: (sum - error - self.aliases(epsilon)).max(0.0),
            value: sum.clamp(0.0, 1.0),
            upper: upper.clamp(0.0, 1.0),
        }
    }

    /// Bound on what the trapezoidal sum contains in addition to I(epsilon).
    fn aliases(&self, epsilon: f64) -> f64 {
        let width = 2.0 * std::f64::consts::PI / self.h;
        let below = 1.0 / libm::expm1(self.c * width);
        let (s, log_mgf) = self.above;
        let decay = (s - self.c) * width;
        let above = libm::exp(log_mgf - s * epsilon - decay) / -libm::expm1(-decay);
        (below + above) * (1.0 + 1e-9)
    }

    /// An epsilon at which the inversion is centred.
    pub(super) const fn centre(&self) -> f64 {
        self.centre
    }

    /// Relative width of a bracket for which a second attempt is not worthwhile.
    pub(super) const fn tight(&self) -> f64 {
        if self.shifted.is_some() { 1e-7 } else { 1e-10 }
    }

    /// The real part of the contour.
    pub(super) const fn contour(&self) -> f64 {
        self.c
    }

    /// Rate at which ln delta decreases with epsilon near the centre.
    pub(super) const fn rate(&self) -> f64 {
        self.rate
    }
}

/// Fractions of the saddle point that are tried for a line with a short period.
const NEARER: [f64; 4] = [1.0, 0.7, 0.5, 0.35];

/// Distances s - c in standard deviations that are tried until one is good enough.
const DISTANCES: [f64; 8] = [6.0, 3.0, 1.5, 0.8, 0.4, 0.2, 0.1, 0.05];

/// A period of this many standard deviations is good enough.
const SHORT_PERIOD: f64 = 24.0;

/// Width W of a period that makes the aliases negligible, and the s with K(s) that proves it.
fn period(
    losses: &mut Losses<'_>,
    at: &TiltedComposition,
    (epsilon, log_delta): (f64, f64),
    (thorough, safety): (bool, f64),
) -> Option<(f64, (f64, f64))> {
    let below = (safety - log_delta) / at.c;
    let deviation = at.curvature().sqrt();
    let mut at_distance = |a: f64| {
        let s = at.c + a / deviation;
        let log_mgf = losses.tilted(s, 0.0)?.total.log_mgf;
        let width = (log_mgf - s * epsilon - log_delta + safety) / (s - at.c);
        (width > 0.0).then_some((width, (s, log_mgf)))
    };
    let mut best: Option<(f64, (f64, f64))> = None;
    if thorough {
        let mut a = 0.5;
        while let Some(found) = at_distance(a)
            && best.is_none_or(|(width, _)| found.0 < width)
        {
            best = Some(found);
            a *= 1.6;
        }
    } else {
        for a in DISTANCES {
            let found = at_distance(a);
            best = [best, found]
                .into_iter()
                .flatten()
                .min_by(|a, b| a.0.total_cmp(&b.0));
            if best.is_some_and(|(w, _)| w < below.max(SHORT_PERIOD * deviation)) {
                break;
            }
        }
    }
    best.map(|(width, above)| (width.max(below), above))
}

/// Each run of a loss has an error of at most e^-exponent of its value at t = 0.
fn quadrature(losses: &[(Loss, u64, Tilted)]) -> f64 {
    (losses.iter())
        .filter(|(_, _, one)| !one.is_gaussian())
        .map(|(_, count, _)| *count as f64 * libm::exp(-exponent(*count)))
        .sum()
}

/// Multiplies the second half of a characteristic function by cos², decreasing from 1 to 0.
fn fade_out(excess: &mut [Complex64]) {
    let half = excess.len() / 2;
    let rest = (excess.len() - half) as f64;
    for (k, e) in excess[half..].iter_mut().enumerate() {
        let angle = std::f64::consts::FRAC_PI_2 * (k as f64 / rest);
        e.re += 2.0 * libm::log(libm::cos(angle));
    }
}

/// K(c + it) - K(c) - i t K'(c) on the grid.
fn table(composition: &TiltedComposition, h: f64, steps: usize) -> Vec<Complex64> {
    let mut sums = vec![Complex64::ZERO; steps];
    for (_, count, one) in &composition.losses {
        one.add_log_characteristic(h, *count as f64, &mut sums);
    }
    sums
}
