//! One-dimensional integrals of privacy losses in a common form, and the log-sum-exp function that
//! they are built from.

/// k + a ℓ(y) + b ℓ(-y).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Form {
    pub(super) constant: f64,
    pub(super) here: f64,
    pub(super) mirrored: f64,
}

impl Form {
    pub(super) const fn new(constant: f64, here: f64, mirrored: f64) -> Self {
        Self {
            constant,
            here,
            mirrored,
        }
    }

    /// This form and `factor` times another.
    fn plus(self, factor: f64, other: Self) -> Self {
        Self {
            constant: self.constant + factor * other.constant,
            here: self.here + factor * other.here,
            mirrored: self.mirrored + factor * other.mirrored,
        }
    }
}

/// ln of the base measure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Base {
    /// -y²/2.
    Normal,
    /// -y/2.
    Exponential,
}

impl Base {
    pub(super) fn log(self, y: f64) -> f64 {
        match self {
            Self::Normal => -0.5 * y * y,
            Self::Exponential => -0.5 * y,
        }
    }
}

/// ln(1 / √(2π)).
pub(super) const LOG_NORMAL: f64 = -0.918_938_533_204_672_7;

/// Integrand e^{base(y) + p(y)} e^{s loss(y)}: p is the log-density under P relative to the base.
#[derive(Debug, Clone)]
pub(super) struct Integrand<'a> {
    pub(super) ratio: &'a Ratio,
    pub(super) base: Base,
    pub(super) p: Form,
    pub(super) loss: Form,
    pub(super) s: f64,
}

impl Integrand<'_> {
    /// For s below -1/2, the same integrand with P and Q exchanged: K(s) of (P, Q) is K(-1-s) of
    /// (Q, P).
    pub(super) fn oriented(mut self) -> Self {
        if self.s < -0.5 {
            self.p = self.q();
            self.loss = Form::new(0.0, 0.0, 0.0).plus(-1.0, self.loss);
            self.s = -1.0 - self.s;
        }
        self
    }

    /// Log-density under Q relative to the base.
    pub(super) fn q(&self) -> Form {
        self.p.plus(-1.0, self.loss)
    }

    /// Exponent of the whole integrand relative to the base.
    pub(super) fn tilted(&self) -> Form {
        self.p.plus(self.s, self.loss)
    }

    /// Whether ℓ(-y) occurs.
    pub(super) fn two_sided(&self) -> bool {
        self.p.mirrored != 0.0 || self.loss.mirrored != 0.0
    }

    /// ln of the density under P, and the loss.
    pub(super) fn outcome(&self, y: f64) -> (f64, f64) {
        let here = self.ratio.log(y);
        let mirrored = if self.two_sided() {
            self.ratio.log(-y)
        } else {
            0.0
        };
        let value = |f: Form| f.constant + f.here * here + f.mirrored * mirrored;
        (self.base.log(y) + value(self.p), value(self.loss))
    }

    /// ln of the integrand.
    pub(super) fn log(&self, y: f64) -> f64 {
        let (log_p, loss) = self.outcome(y);
        log_p + self.s * loss
    }

    /// Forms whose combinations with small factors bound every term of a sum of excesses: the
    /// moment itself and both densities.
    pub(super) fn envelope(&self) -> [Form; 3] {
        [self.tilted(), self.p, self.q()]
    }

    /// The log-integrand plus `log_scale` where it is so large that the excess over 1 is about the
    /// moment itself.
    pub(super) fn reached(&self, y: f64, log_scale: f64) -> f64 {
        let log = self.log(y) + log_scale;
        if log > 3.0 { log } else { f64::NEG_INFINITY }
    }

    /// Bounds on an interval that follow from the convexity of ℓ.
    pub(super) fn bracket(&self, from: f64, to: f64) -> Bracket {
        Bracket::new(self, from, to)
    }
}

/// Lines above and below ℓ(y) and ℓ(-y) on an interval: the chord and the tangent at the midpoint.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bracket {
    base: Base,
    from: f64,
    to: f64,
    here: Lines,
    mirrored: Lines,
}

#[derive(Debug, Clone, Copy)]
struct Lines {
    /// Value at `from`, and slope.
    chord: (f64, f64),
    /// Value at the midpoint, and slope.
    tangent: (f64, f64),
    /// Slopes at both ends.
    slopes: (f64, f64),
}

impl Lines {
    fn new(f: impl Fn(f64) -> (f64, f64), from: f64, to: f64) -> Self {
        let ((low, slope_low), (high, slope_high)) = (f(from), f(to));
        Self {
            chord: (low, (high - low) / (to - from)),
            tangent: f(0.5 * (from + to)),
            slopes: (slope_low, slope_high),
        }
    }

    const ZERO: Self = Self {
        chord: (0.0, 0.0),
        tangent: (0.0, 0.0),
        slopes: (0.0, 0.0),
    };

    /// Value at the midpoint and slope of a line above `factor` times the function.
    fn above(&self, factor: f64, half: f64) -> (f64, f64) {
        let (value, slope) = if factor >= 0.0 {
            (self.chord.0 + half * self.chord.1, self.chord.1)
        } else {
            self.tangent
        };
        (factor * value, factor * slope)
    }
}

impl Bracket {
    fn new(integrand: &Integrand<'_>, from: f64, to: f64) -> Self {
        let ratio = integrand.ratio;
        let mirror = |y: f64| {
            let (value, slope) = ratio.log_and_slope(-y);
            (value, -slope)
        };
        Self {
            base: integrand.base,
            from,
            to,
            here: Lines::new(|y| ratio.log_and_slope(y), from, to),
            mirrored: if integrand.two_sided() {
                Lines::new(mirror, from, to)
            } else {
                Lines::ZERO
            },
        }
    }

    /// An upper bound on base + form over the interval.
    pub(super) fn upper(&self, form: Form) -> f64 {
        let middle = 0.5 * (self.from + self.to);
        let half = 0.5 * (self.to - self.from);
        let (a, slope_a) = self.here.above(form.here, half);
        let (b, slope_b) = self.mirrored.above(form.mirrored, half);
        let slope = slope_a + slope_b;
        let top = match self.base {
            Base::Normal => slope.max(self.from).min(self.to),
            Base::Exponential if slope > 0.5 => self.to,
            Base::Exponential => self.from,
        };
        let size = a.abs() + b.abs() + (slope * (top - middle)).abs() + top * top;
        let rounding = 1e-15 * size;
        form.constant + a + b + slope * (top - middle) + self.base.log(top) + rounding
    }

    /// An upper bound on the absolute slope of base + form over the interval.
    pub(super) fn steepness(&self, form: Form) -> f64 {
        let base = match self.base {
            Base::Normal => (-self.to, -self.from),
            Base::Exponential => (-0.5, -0.5),
        };
        let scaled = |(low, high): (f64, f64), factor: f64| {
            let (x, y) = (factor * low, factor * high);
            (x.min(y), x.max(y))
        };
        let (a, b) = (
            scaled(self.here.slopes, form.here),
            scaled(self.mirrored.slopes, form.mirrored),
        );
        let (low, high) = (base.0 + a.0 + b.0, base.1 + a.1 + b.1);
        low.abs().max(high.abs())
    }
}

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

    /// Slopes in the given order.
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

    /// ℓ(y), with relative accuracy even if it is tiny.
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

    /// ℓ(y), computed relative to its largest term.
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
