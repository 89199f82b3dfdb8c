//! Mixtures of normals against a normal or their mirror image.

use super::super::{MixtureLoss, Side};
use super::tail::{Edge, Tail, ULP, normal};

impl MixtureLoss {
    /// ln of the weight of the shift 0, the limit of l far to the left. Computed from the other
    /// weights, none of which is lost to rounding if they are small.
    fn floor(&self) -> Option<f64> {
        let (first, others) = self.weights.split_first()?;
        let rest: f64 = others.iter().sum();
        (self.shifts.first() == Some(&0.0)).then(|| match rest < 0.5 {
            true => libm::log1p(-rest),
            false => libm::log(*first),
        })
    }

    pub(super) fn anchor(&self) -> f64 {
        let floor = self.floor().unwrap_or(0.0);
        match self.side {
            Side::Remove => floor,
            Side::Add => -floor,
            Side::Replace => 0.0,
        }
    }

    pub(super) fn reach(&self) -> (f64, f64) {
        let (low, high) = (f64::NEG_INFINITY, f64::INFINITY);
        match (self.side, self.floor()) {
            (Side::Remove, Some(_)) => (0.0, high),
            (Side::Add, Some(_)) => (low, 0.0),
            _ => (low, high),
        }
    }

    pub(super) fn edge(&self, t: f64) -> Edge {
        match self.side {
            Side::Remove => self.removed(t),
            Side::Add => self.removed(-t).exchanged(),
            Side::Replace => self.replaced(t),
        }
    }

    fn removed(&self, t: f64) -> Edge {
        let target = match self.floor() {
            Some(_) => log_expm1(t),
            None => t,
        };
        let x = self.solve(target);
        // The loss changes by the fraction of the shifted part, at most 1 - e^-t, times the error
        // of the target.
        let share = self.floor().map_or(1.0, |_| -libm::expm1(-t));
        let logs = if share > 0.0 {
            share * (target.abs() + self.log_scale())
        } else {
            0.0
        };
        Edge {
            p: self.tail(x),
            q: normal(x, 0.0, self.sigma),
            shift: 8.0 * ULP * (logs + t.abs()),
        }
    }

    fn replaced(&self, t: f64) -> Edge {
        let x = self.solve_replaced(t.abs()) * t.signum();
        Edge {
            p: self.tail(x),
            q: self.tail(-x).reversed(),
            shift: 8.0 * ULP * (t.abs() + t.abs().min(1.0) * self.log_scale()),
        }
    }

    fn tail(&self, x: f64) -> Tail {
        let nothing = Tail {
            above: 0.0,
            below: 0.0,
            error: 0.0,
        };
        let parts = self.shifts.iter().zip(&self.weights);
        parts.fold(nothing, |sum, (&shift, &weight)| {
            let part = normal(x, shift, self.sigma);
            Tail {
                above: sum.above + weight * part.above,
                below: sum.below + weight * part.below,
                error: sum.error.max(part.error) + 2.0 * ULP,
            }
        })
    }

    /// Magnitude of the logarithms that are added in the exponent.
    fn log_scale(&self) -> f64 {
        let smallest = self.weights.iter().copied().fold(1.0, f64::min);
        let largest = self.shifts.iter().copied().fold(0.0, f64::max) / self.sigma;
        8.0 - 2.0 * libm::log(smallest) + largest * largest
    }

    /// x with ln Σ_{s > 0} (`w_i` / `w_0`) `e^((s_i` x - `s_i²/2)/σ²`) = `target`, `w_0` = 1
    /// without a shift at 0.
    fn solve(&self, target: f64) -> f64 {
        let variance = self.sigma * self.sigma;
        let base = self.floor().unwrap_or(0.0);
        let skip = usize::from(self.floor().is_some());
        let terms = || {
            let parts = self.shifts.iter().zip(&self.weights);
            parts.skip(skip).map(|(&s, &w)| (s, libm::log(w) - base))
        };
        if let (Some((s, log_w)), 1) = (terms().next(), terms().count()) {
            return variance / s * (target - log_w) + 0.5 * s;
        }
        let terms: Vec<(f64, f64)> = terms().collect();
        let function = |x: f64| {
            log_sum(
                &terms,
                |s, log_w| log_w + s * (x - 0.5 * s) / variance,
                variance,
            )
        };
        newton(target, &terms, variance, function)
    }

    /// x >= 0 with l(x) - l(-x) = t >= 0.
    fn solve_replaced(&self, t: f64) -> f64 {
        let variance = self.sigma * self.sigma;
        if let ([_, s], [w0, w1], Some(_)) = (&self.shifts[..], &self.weights[..], self.floor()) {
            // y = e^(s x/σ²) solves c y² + w0 (1 - e^t) y - c e^t = 0, c = w1 e^(-s²/2σ²).
            let log_c = libm::log(*w1) - 0.5 * s * s / variance;
            let log_arg = libm::log(*w0) + log_sinh(0.5 * t) - log_c;
            return variance / s * (0.5 * t + asinh_exp(log_arg));
        }
        let loss = |x: f64| self.log_ratio(x) - self.log_ratio(-x);
        bisect(t, self.sigma, loss)
    }
}

/// ln Σ e^f and its slope in x, each f having the slope s/σ².
fn log_sum(terms: &[(f64, f64)], f: impl Fn(f64, f64) -> f64, variance: f64) -> (f64, f64) {
    let exponent = |&(s, log_w): &(f64, f64)| f(s, log_w);
    let largest = terms.iter().map(exponent).fold(f64::NEG_INFINITY, f64::max);
    let (mut sum, mut slope) = (0.0, 0.0);
    for term in terms {
        let e = libm::exp(exponent(term) - largest);
        sum += e;
        slope += e * term.0 / variance;
    }
    (largest + libm::log(sum), slope / sum)
}

/// Root of a convex increasing function: after the first step the iterates decrease towards it.
fn newton(
    target: f64,
    terms: &[(f64, f64)],
    variance: f64,
    function: impl Fn(f64) -> (f64, f64),
) -> f64 {
    // The largest single term has its own root; the sum is at least that term.
    let own = |&(s, log_w): &(f64, f64)| variance / s * (target - log_w) + 0.5 * s;
    let mut x = terms.iter().map(own).fold(f64::INFINITY, f64::min);
    for _ in 0..60 {
        let (value, slope) = function(x);
        let next = x - (value - target) / slope;
        if !(next < x) {
            break;
        }
        x = next;
    }
    x
}

/// Root of an increasing odd function by doubling and bisection.
fn bisect(target: f64, scale: f64, function: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, scale);
    for _ in 0..1100 {
        if function(high) >= target {
            break;
        }
        low = high;
        high *= 2.0;
    }
    for _ in 0..1100 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if function(middle) < target {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// ln(e^t - 1) for t >= 0.
pub(super) fn log_expm1(t: f64) -> f64 {
    if t < 1.0 {
        libm::log(libm::expm1(t))
    } else {
        t + libm::log1p(-libm::exp(-t))
    }
}

fn log_sinh(t: f64) -> f64 {
    if t < 1.0 {
        libm::log(libm::sinh(t))
    } else {
        t - std::f64::consts::LN_2 + libm::log1p(-libm::exp(-2.0 * t))
    }
}

/// asinh(e^v).
fn asinh_exp(v: f64) -> f64 {
    if v > 30.0 {
        v + std::f64::consts::LN_2
    } else {
        libm::asinh(libm::exp(v))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: ln of the rounded 1 - q has a relative error of 1e-4 at q = 1e-12, in each
    /// of many runs.
    #[test]
    fn the_limit_of_the_loss_is_accurate_for_tiny_samples() {
        for (q, expected) in [
            (1e-12, 1.000_000_000_000_5e-12),
            (3e-17, 3e-17),
            (0.75, 4.0_f64.ln()),
        ] {
            for (side, sign) in [(Side::Remove, -1.0), (Side::Add, 1.0)] {
                let mixture = MixtureLoss {
                    sigma: 1.0,
                    shifts: vec![0.0, 1.0],
                    weights: vec![1.0 - q, q],
                    side,
                };
                let ratio = mixture.anchor() / (sign * expected);
                assert!((ratio - 1.0).abs() < 1e-15, "{q} {side:?}: {ratio}");
            }
        }
    }
}
