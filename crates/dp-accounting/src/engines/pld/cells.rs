//! Divides the loss into cells between points of a lattice, wide where the result depends little on
//! them.

use crate::engines::loss::{Edge, Loss, Mass, ULP, mass_between};

/// Parameters of the division of a loss into cells.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cutting {
    /// Step of the lattice.
    pub(super) step: f64,
    /// Tilt and logarithm of its normaliser.
    pub(super) lambda: f64,
    pub(super) log_m: f64,
    /// A cell is bisected while its tilted mass times its squared width is above this.
    pub(super) tolerance: f64,
    /// Ends of the lattice.
    pub(super) first: i64,
    pub(super) last: i64,
}

impl Cutting {
    /// Whether a cell of this tilted mass and width must be divided further.
    pub(super) fn is_heavy(&self, tilted: f64, width: f64) -> bool {
        let steep = (self.lambda + 1.0) * width;
        tilted * width * width > self.tolerance || (steep > 1.0 && tilted > 1e-20)
    }
}

/// Maximum number of bisections for a loss: enough for any useful bracket. Every component of a
/// mixture makes a bisection more expensive, and mixtures with many components are limited to
/// fewer.
pub(super) fn affordable_cuts(loss: &Loss) -> usize {
    let components = match loss {
        Loss::Mixture(mixture) => mixture.shifts.len().max(2),
        _ => 2,
    };
    MOST_CUTS / components.saturating_mul(components)
}

/// Bisections times squared number of components.
const MOST_CUTS: usize = 4_000_000;

/// One cell, in P-mass.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cell {
    pub(super) from: i64,
    pub(super) to: i64,
    /// P-mass of the cell and its error.
    pub(super) mass: f64,
    pub(super) error: f64,
    /// A lower bound on the part of the mass that must be put on the right end so that both P and Q
    /// are preserved.
    pub(super) right: f64,
}

/// The cells of the continuous part, in order.
pub(super) fn cut(loss: &Loss, how: &Cutting) -> Vec<Cell> {
    let mut cutter = Cutter {
        loss,
        how,
        anchor: loss.anchor(),
        cells: Vec::new(),
        cuts: affordable_cuts(loss),
    };
    let span = how.last - how.first;
    let size = 1_i64 << (63 - (span / 64).max(1).leading_zeros());
    let mut a = (how.first, cutter.edge(how.first as f64));
    while a.0 < how.last {
        let next = ((a.0.div_euclid(size) + 1) * size).min(how.last);
        let b = (next, cutter.edge(next as f64));
        cutter.visit(a, b);
        a = b;
    }
    cutter.cells
}

struct Cutter<'a> {
    loss: &'a Loss,
    how: &'a Cutting,
    anchor: f64,
    cells: Vec<Cell>,
    /// How often a cell may still be bisected.
    cuts: usize,
}

impl Cutter<'_> {
    fn edge(&self, index: f64) -> Edge {
        let (low, high) = self.loss.reach().unwrap_or((0.0, 0.0));
        self.loss.edge((index * self.how.step).clamp(low, high))
    }

    fn visit(&mut self, a: (i64, Edge), b: (i64, Edge)) {
        let size = b.0 - a.0;
        let whole = mass_between(&a.1, &b.1);
        if size > 1 && self.cuts > 0 && self.is_heavy(&whole, size, b.0) {
            self.cuts -= 1;
            let at = a.0 + size / 2;
            let middle = (at, self.edge(at as f64));
            self.visit(a, middle);
            self.visit(middle, b);
        } else if whole.p > 0.0 || whole.q > 0.0 {
            self.cells.push(self.cell(a, b, &whole));
        }
    }

    fn is_heavy(&self, mass: &Mass, size: i64, right: i64) -> bool {
        let exponent = self.how.lambda * self.at(right) - self.how.log_m;
        let tilted = mass.p * libm::exp(exponent);
        self.how.is_heavy(tilted, size as f64 * self.how.step)
    }

    fn at(&self, index: i64) -> f64 {
        self.anchor + index as f64 * self.how.step
    }

    /// The part (p - q e^a) / (1 - e^-w) must be put on the right end.
    fn cell(&self, a: (i64, Edge), b: (i64, Edge), mass: &Mass) -> Cell {
        let (low, high) = (self.at(a.0), self.at(b.0));
        let width = (b.0 - a.0) as f64 * self.how.step;
        let grow = libm::exp(low);
        let moved = mass.q * grow;
        // relative error of e^a q, including the error of the points
        let relative =
            2.0 * a.1.shift.max(b.1.shift) + 4.0 * ULP * (1.0 + low.abs().max(high.abs()));
        let error = mass.p_error + mass.q_error * grow + (moved + mass.p) * relative;
        let right = (mass.p - moved + error) / -libm::expm1(-width);
        Cell {
            from: a.0,
            to: b.0,
            mass: mass.p,
            error: mass.p_error,
            right: if right.is_nan() {
                mass.p
            } else {
                right.max(0.0).min(mass.p)
            },
        }
    }
}
