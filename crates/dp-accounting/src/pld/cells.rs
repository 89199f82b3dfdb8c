//! The loss cut into cells between points of a lattice, wide where little depends on them.

use crate::loss::{Edge, Loss, Mass, ULP, mass_between};

/// How a loss is cut.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cutting {
    /// Step of the lattice.
    pub(super) step: f64,
    /// Tilt and logarithm of its normaliser.
    pub(super) lambda: f64,
    pub(super) log_m: f64,
    /// A cell is halved while its tilted mass times its squared width is above this.
    pub(super) tolerance: f64,
    /// Ends of the lattice.
    pub(super) first: i64,
    pub(super) last: i64,
}

/// One cell, in P-mass.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cell {
    /// Whether this is an atom between two points.
    pub(super) atom: bool,
    pub(super) from: i64,
    pub(super) to: i64,
    /// P-mass of the cell and its error.
    pub(super) mass: f64,
    pub(super) error: f64,
    /// Part of the mass that belongs on the right end so that P and Q are kept, from both sides.
    pub(super) right_low: f64,
    pub(super) right_high: f64,
    /// Most by which the chord of the profile lies above it within the cell.
    pub(super) excess: f64,
}

/// The cells of the continuous part, in order.
pub(super) fn cut(loss: &Loss, how: &Cutting) -> Vec<Cell> {
    let mut cutter = Cutter {
        loss,
        how,
        anchor: loss.anchor(),
        cells: Vec::new(),
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
}

impl Cutter<'_> {
    fn edge(&self, index: f64) -> Edge {
        let (low, high) = self.loss.reach().unwrap_or((0.0, 0.0));
        self.loss.edge((index * self.how.step).clamp(low, high))
    }

    fn visit(&mut self, a: (i64, Edge), b: (i64, Edge)) {
        let size = b.0 - a.0;
        let whole = mass_between(&a.1, &b.1);
        if size > 1 && self.is_heavy(&whole, size, b.0) {
            let at = a.0 + size / 2;
            let middle = (at, self.edge(at as f64));
            self.visit(a, middle);
            self.visit(middle, b);
        } else if whole.p > 0.0 || whole.q > 0.0 {
            let middle = self.edge(a.0 as f64 + 0.5 * size as f64);
            self.cells.push(self.cell(a, &middle, b));
        }
    }

    fn is_heavy(&self, mass: &Mass, size: i64, right: i64) -> bool {
        let width = size as f64 * self.how.step;
        let exponent = self.how.lambda * self.at(right) - self.how.log_m;
        let tilted = mass.p * libm::exp(exponent);
        let steep = (self.how.lambda + 1.0) * width;
        tilted * width * width > self.how.tolerance || (steep > 1.0 && tilted > 1e-20)
    }

    fn at(&self, index: i64) -> f64 {
        self.anchor + index as f64 * self.how.step
    }

    fn cell(&self, a: (i64, Edge), middle: &Edge, b: (i64, Edge)) -> Cell {
        let (left, right) = (mass_between(&a.1, middle), mass_between(middle, &b.1));
        let width = (b.0 - a.0) as f64 * self.how.step;
        let shift = a.1.shift.max(middle.shift).max(b.1.shift);
        let ends = Ends {
            width,
            half: 0.5 * width,
            grow_a: libm::exp(self.at(a.0)),
            shrink_b: libm::exp(-self.at(b.0)),
            relative: 2.0 * shift + 4.0 * ULP * (1.0 + self.at(a.0).abs().max(self.at(b.0).abs())),
        };
        let (mass, error) = (left.p + right.p, left.p_error + right.p_error);
        let (l, r) = (ends.right_share(&left), ends.right_share(&right));
        let right_low = (l.0 + r.0).clamp(0.0, mass);
        let right_high = (l.1 + r.1).clamp(0.0, mass);
        Cell {
            atom: false,
            from: a.0,
            to: b.0,
            mass,
            error,
            right_low,
            right_high,
            excess: ends.excess(&left, &right, right_low, right_high),
        }
    }
}

struct Ends {
    width: f64,
    half: f64,
    /// e^a and e^-b of the losses at the ends.
    grow_a: f64,
    shrink_b: f64,
    /// Relative error of e^a q, the error of the points included.
    relative: f64,
}

impl Ends {
    /// (p - q e^a) / (1 - e^-w), from both sides.
    fn right_share(&self, mass: &Mass) -> (f64, f64) {
        let (above, error) = self.above_left(mass);
        let full = -libm::expm1(-self.width);
        ((above - error) / full, (above + error) / full)
    }

    fn above_left(&self, mass: &Mass) -> (f64, f64) {
        let moved = mass.q * self.grow_a;
        let error = mass.p_error + mass.q_error * self.grow_a + (moved + mass.p) * self.relative;
        (mass.p - moved, error)
    }

    /// The profile is at least its three tangents at the ends and the middle; they meet at the
    /// barycentres of the halves, and between tangent lines a chord is farthest at such a point.
    fn excess(&self, left: &Mass, right: &Mass, low: f64, high: f64) -> f64 {
        let (above, error) = self.above_left(left);
        let near = libm::expm1(self.half);
        let rise = positive_or((above + error) / (left.q * self.grow_a), near);
        let mass = left.p + right.p + left.p_error + right.p_error;
        let first = (mass - low) * rise;
        // e^(b2 - b) = p / (q e^b)
        let (p, q) = (right.p * self.shrink_b, right.q);
        let slack = right.p_error * self.shrink_b + right.q_error + 2.0 * q * self.relative;
        let far = -libm::expm1(-self.half);
        let second = (high + right.p_error) * positive_or((q - p + slack) / q, far);
        first.max(second)
    }
}

/// `value` cut to [0, most]; `most` where it is not a number.
fn positive_or(value: f64, most: f64) -> f64 {
    if value.is_nan() {
        most
    } else {
        value.clamp(0.0, most)
    }
}
