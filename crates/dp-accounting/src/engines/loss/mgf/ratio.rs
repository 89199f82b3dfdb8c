//! Logarithm of a sum of weighted exponentials.

/// Exponents up to this are summed as 1 + Σ w (e^v - 1).
const MODERATE: f64 = 30.0;

#[derive(Debug, Clone, Copy)]
struct Term {
    weight: f64,
    log_weight: f64,
    slope: f64,
    constant: f64,
}

impl Term {
    fn new(weight: f64, slope: f64, constant: f64) -> Self {
        Self {
            weight,
            log_weight: libm::log(weight),
            slope,
            constant,
        }
    }

    fn exponent(&self, y: f64) -> f64 {
        self.log_weight + self.slope * y + self.constant
    }
}

/// ℓ(y) = ln `Σ_i` `w_i` `e^{c_i` y + `d_i`} with Σ `w_i` = 1: convex, with slopes between the `c_i`.
#[derive(Debug, Clone)]
pub(super) struct Ratio {
    terms: Vec<Term>,
}

impl Ratio {
    /// Normals of variance 1 shifted by `c_i` against the normal at 0: `d_i` = -`c_i²/2`.
    pub(super) fn gaussian(shifts: impl Iterator<Item = f64>, weights: &[f64]) -> Self {
        let terms = shifts.zip(weights);
        let terms = terms.map(|(slope, &w)| Term::new(w, slope, -0.5 * slope * slope));
        Self {
            terms: terms.collect(),
        }
    }

    /// 1 - q + q e^y.
    pub(super) fn sampled(q: f64) -> Self {
        Self {
            terms: vec![Term::new(1.0 - q, 0.0, 0.0), Term::new(q, 1.0, 0.0)],
        }
    }

    /// Weights and slopes.
    pub(super) fn components(&self) -> impl Iterator<Item = (f64, f64)> + Clone + '_ {
        self.terms.iter().map(|t| (t.weight, t.slope))
    }

    /// Slopes in the order given.
    pub(super) fn slopes(&self) -> impl Iterator<Item = f64> + '_ {
        self.terms.iter().map(|t| t.slope)
    }

    pub(super) fn smallest_slope(&self) -> f64 {
        self.slopes().fold(f64::INFINITY, f64::min)
    }

    pub(super) fn largest_slope(&self) -> f64 {
        self.slopes().fold(f64::NEG_INFINITY, f64::max)
    }

    pub(super) const fn has_two_terms(&self) -> bool {
        self.terms.len() == 2
    }

    /// Where the last two terms are equal, and the difference of their slopes.
    pub(super) fn crossing(&self) -> (f64, f64) {
        let [.., low, high] = self.terms.as_slice() else {
            return (f64::NEG_INFINITY, 1.0);
        };
        let slope = high.slope - low.slope;
        let height = libm::log(low.weight / high.weight) + low.constant - high.constant;
        (height / slope, slope)
    }

    /// ℓ(y), with relative accuracy also where it is tiny.
    pub(super) fn log(&self, y: f64) -> f64 {
        let mut top = f64::NEG_INFINITY;
        let mut excess = 0.0;
        for t in &self.terms {
            let v = t.slope * y + t.constant;
            top = top.max(v);
            if v != 0.0 && v <= MODERATE {
                excess += t.weight * libm::expm1(v);
            }
        }
        if top <= MODERATE && excess > -0.5 {
            return libm::log1p(excess);
        }
        self.log_sum(y)
    }

    /// ℓ(y) relative to its largest term.
    fn log_sum(&self, y: f64) -> f64 {
        if let [low, high] = self.terms.as_slice() {
            let (a, b) = (low.exponent(y), high.exponent(y));
            return a.max(b) + libm::log1p(libm::exp(-(a - b).abs()));
        }
        self.log_and_slope(y).0
    }

    /// ℓ(y) and ℓ'(y), the mean of the `c_i` under the weights of y.
    pub(super) fn log_and_slope(&self, y: f64) -> (f64, f64) {
        let exponents = self.terms.iter().map(|t| t.exponent(y));
        let top = exponents.fold(f64::NEG_INFINITY, f64::max);
        let (mut sum, mut slopes) = (0.0, 0.0);
        for t in &self.terms {
            let w = libm::exp(t.exponent(y) - top);
            sum += w;
            slopes += w * t.slope;
        }
        (top + libm::log(sum), slopes / sum)
    }
}
