//! A priori bounds on the errors of the two trapezoidal rules of the direction `add`.
//!
//! Notation: M(s) = E W^{-s}, n the normal density, h the step of a rule.
//!
//! * *A trapezoidal rule* of a function analytic in |Im| < b differs from the integral by at most 2
//!   / (e^{2πb/h} - 1) times the integral of the modulus on the line Im = b (Trefethen, Weideman,
//!   SIAM Review 56, 2014, Theorem 5.1).
//! * *Inner rule.* On Im y = b the integrand n(y) e^{-uY} has at most e^{b²/2} times the modulus of
//!   n e^{-cuY}, with c = cos μb. So ψ(u) is at most the rule plus κ ψ(cu), κ = 2 e^{b²/2} /
//!   (e^{2πb/h} - 1). Multiplied out, ψ^t has terms in which k of the Y's are replaced by cY. The
//!   mean of (`Σ_j e^{a_j} Y_j` / t)^{-s} is log-concave in the a's (Prékopa: the exponent is -s
//!   times a log-sum-exp of a + μy, and n is log-concave) and symmetric, so one `a_j` = ln c costs
//!   at most as much as `a_j` = ln(c)/t in all of them, c^{-s/t}: together (1 + κ c^{-s/t})^t.
//! * *y below -R.* W is at least the geometric mean of the Y's, so there W^{-s} <= Π `Y_j^{-s/t}`,
//!   under which each y is a normal of mean -sμ/t: at most t e^{s (s/t + 1) μ²/2} Φ(sμ/t - R),
//!   which is not a fraction of M but an absolute error.
//! * *y above T.* W^{-s} decreases with each Y, so its mean there is not above M: at most t Φ(-T),
//!   and the linear term of φ loses less than 300 t Φ(μ - T).
//! * *Outer rule.* On Im w = β, |ψ(u e^{iβ})| <= ψ(u cos β), and so the rule differs by at most 2
//!   cos(β)^{-s} (M + 1) / (e^{2πβ/h} - 1).
//! * *w below the first node.* There E e^{-vW} - e^{-v} <= v² Var W / 2, Var W = (e^{μ²} - 1)/t.
//! * *w above the last node.* ψ(e^w) = P(ln E - ln Y > w) with E exponential; both terms have
//!   log-concave densities, so it is log-concave, and the sum beyond the first node that is e^-D
//!   below the largest is at most a geometric series. (This identifies ψ with its rule.)
//!
//! Rounding errors are treated separately; see `RELATIVE_ERROR`.

use std::f64::consts::{FRAC_1_SQRT_2, TAU};

/// Where the sums end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cuts {
    /// The first w.
    pub(super) first: f64,
    /// R: y starts at -R.
    pub(super) reach: f64,
    /// D: the outer sum ends at terms e^-D times the largest.
    pub(super) drop: f64,
    /// Nodes of the outer rule.
    pub(super) n_nodes: f64,
}

impl Cuts {
    /// T: the last y.
    pub(super) fn last(self, mu: f64) -> f64 {
        2.0 * mu + 14.0
    }
}

/// The two rules.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rules {
    pub(super) mu: f64,
    pub(super) t: f64,
    /// Step in w.
    pub(super) outer: f64,
    /// Step in y.
    pub(super) inner: f64,
    pub(super) cuts: Cuts,
}

/// Angles at which lines in the complex plane are tried.
const ANGLES: [f64; 7] = [0.1, 0.3, 0.6, 0.9, 1.1, 1.3, 1.45];

impl Rules {
    /// K <= s (s/t + 1) μ²/2: the geometric mean in place of W.
    pub(super) fn geometric_mean(&self, s: f64) -> f64 {
        0.5 * s * (s / self.t + 1.0) * self.mu * self.mu
    }

    /// The omitted part of M, as a fraction of M.
    pub(super) fn relative(&self, s: f64) -> f64 {
        let inner = libm::expm1(self.t * libm::exp(self.log_inner(s / self.t)));
        let outer = 2.0 * libm::exp(self.log_outer(s));
        let top = libm::exp(-self.cuts.drop) * (self.cuts.n_nodes / self.cuts.drop + 1.0);
        // Φ(-14) = 7.8e-45
        let above = self.t * 301.0 * 1e-44;
        1.01 * (inner + outer + top + above)
    }

    /// ln of κ c^-share on the best line.
    fn log_inner(&self, share: f64) -> f64 {
        let on_line = |angle: &f64| {
            let b = (angle / self.mu).min(TAU / self.inner);
            let line = 0.5 * b * b - TAU * b / self.inner;
            line - share * libm::log(libm::cos(self.mu * b)) + 0.7
        };
        ANGLES.iter().map(on_line).fold(0.0, f64::min)
    }

    /// ln of 2 cos(β)^-s / (e^{2πβ/h} - 1) on the best line.
    fn log_outer(&self, s: f64) -> f64 {
        let on_line = |beta: &f64| 0.7 - TAU * beta / self.outer - s * libm::log(libm::cos(*beta));
        ANGLES.iter().map(on_line).fold(0.0, f64::min)
    }

    /// ln of an upper bound on the contribution of y below -R.
    pub(super) fn log_beyond(&self, s: f64) -> f64 {
        let distance = self.cuts.reach - s / self.t * self.mu;
        let tail = 0.5 * libm::erfc(distance * FRAC_1_SQRT_2);
        self.geometric_mean(s) + libm::log(1.01 * self.t * tail)
    }

    /// An upper bound on the contribution of w below the first node.
    pub(super) fn below(&self, s: f64) -> f64 {
        let variance = libm::expm1(self.mu * self.mu) / self.t;
        let log = (s + 2.0) * self.cuts.first - libm::lgamma(s);
        0.51 * variance / (s + 2.0) * libm::exp(log)
    }
}
