//! One discretised loss: sparse masses on a lattice, tilted.

use super::cells::{Cell, Cutting, cut};
use super::contract::{Gap, contract};
use crate::loss::{Loss, ULP};

/// Which bound a discretisation gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// Never below the true profile.
    Upper,
    /// Never above it.
    Lower,
}

/// Weights p e^(lambda L - log_m) at L = anchor + index * step.
#[derive(Debug, Clone)]
pub(super) struct Lattice {
    pub(super) anchor: f64,
    pub(super) points: Vec<(i64, f64)>,
    pub(super) log_m: f64,
    /// P-probability of an infinite loss.
    pub(super) infinite: f64,
    /// Bound on the sum of the errors of the weights.
    pub(super) error: f64,
    /// Bound on the distance of the points from where they are said to be.
    pub(super) shift: f64,
    pub(super) count: f64,
}

/// A factor e^x that neither overflows nor is 0 times infinity.
fn exp(x: f64) -> f64 {
    libm::exp(x.min(700.0))
}

/// Discretises `loss` on the lattice of `how`.
pub(super) fn discretise(loss: &Loss, how: &Cutting, side: Side) -> Option<Lattice> {
    let anchor = loss.anchor();
    let weight = |index: i64| exp(how.lambda * (anchor + index as f64 * how.step) - how.log_m);
    let mut pieces: Vec<Cell> = if loss.reach().is_some() {
        cut(loss, how)
    } else {
        Vec::new()
    };
    let mut off_lattice = 0.0_f64;
    for &(t, p) in &loss.atoms()? {
        let Some(cell) = atom_cell((t, p), how) else {
            continue;
        };
        if cell.from == cell.to {
            let distance = (t - cell.from as f64 * how.step).abs();
            off_lattice = off_lattice.max(distance + ULP * t.abs());
        }
        pieces.push(cell);
    }
    pieces.sort_by_key(|cell| (cell.from, cell.to));
    let mut lattice = Lattice {
        anchor,
        points: Vec::new(),
        log_m: how.log_m,
        infinite: loss.infinite_mass(),
        error: 0.0,
        shift: 4.0 * ULP * anchor.abs() + off_lattice,
        count: 1.0,
    };
    let mut points: Vec<(i64, f64)> = Vec::new();
    let mut gaps: Vec<Gap> = Vec::new();
    for cell in &pieces {
        let right = match side {
            Side::Upper => cell.right_high,
            Side::Lower => cell.right_low,
        };
        let (wa, wb) = (weight(cell.from), weight(cell.to));
        points.push((cell.from, (cell.mass - right) * wa));
        points.push((cell.to, right * wb));
        lattice.error += cell.error * wa.max(wb);
        if cell.to > cell.from {
            gaps.push(Gap {
                from: cell.from,
                to: cell.to,
                excess: cell.excess * wa,
                right: right * wb,
                atom: cell.atom,
            });
        }
    }
    // What lies beyond the ends.
    if let Some((low, high)) = loss.reach() {
        let clamp = |i: i64| (i as f64 * how.step).clamp(low, high);
        let (below, above) = (loss.edge(clamp(how.first)), loss.edge(clamp(how.last)));
        match side {
            Side::Upper => {
                let mass = below.p.below * (1.0 + below.p.error);
                points.push((how.first, mass * weight(how.first)));
                lattice.infinite += above.p.above * (1.0 + above.p.error);
            }
            Side::Lower => {
                let mass = above.p.above * (1.0 - above.p.error).max(0.0);
                points.push((how.last, mass * weight(how.last)));
            }
        }
    }
    let mut points = merge(points);
    if side == Side::Lower && !gaps.is_empty() {
        points = contract(&points, &gaps, how.lambda, how.step);
    }
    points.retain(|point| point.1 > 0.0);
    lattice.error += rounding(&points, how, anchor);
    lattice.points = points;
    Some(lattice)
}

/// Rounding of the masses, of e^(lambda L) and of the sums.
fn rounding(points: &[(i64, f64)], how: &Cutting, anchor: f64) -> f64 {
    let size = |index: i64| (how.lambda * (anchor + index as f64 * how.step)).abs();
    let terms = points
        .iter()
        .map(|&(index, w)| w * (16.0 + 2.0 * size(index)));
    ULP * (terms.sum::<f64>() + how.log_m.abs())
}

/// An atom split onto the two lattice points around it, or left on the one it lies at.
fn atom_cell((t, mass): (f64, f64), how: &Cutting) -> Option<Cell> {
    let place = t / how.step;
    if !(place.abs() < 1e15) || mass <= 0.0 {
        return None;
    }
    let nearest = place.round();
    let on_lattice = (place - nearest).abs() <= 1e-9 + 8.0 * ULP * place.abs();
    let base = if on_lattice { nearest } else { place.floor() };
    #[allow(clippy::cast_possible_truncation, reason = "below 1e15")]
    let from = base as i64;
    let inside = if on_lattice {
        0.0
    } else {
        (place - base) * how.step
    };
    let share = libm::expm1(-inside) / libm::expm1(-how.step);
    let error = 8.0 * ULP * (1.0 + place.abs());
    Some(Cell {
        atom: true,
        from,
        to: if on_lattice { from } else { from + 1 },
        mass,
        error: 4.0 * ULP * mass,
        right_low: mass * (share - error).max(0.0),
        right_high: if on_lattice {
            0.0
        } else {
            mass * (share + error).min(1.0)
        },
        excess: if on_lattice {
            0.0
        } else {
            // All of it at one point: the chord is farthest there.
            mass * (1.0 - share + error) * libm::expm1(inside)
        },
    })
}

/// Adds up the masses of equal points; `points` are in any order.
fn merge(mut points: Vec<(i64, f64)>) -> Vec<(i64, f64)> {
    points.sort_by_key(|point| point.0);
    let mut merged: Vec<(i64, f64)> = Vec::with_capacity(points.len());
    for (index, mass) in points {
        match merged.last_mut() {
            Some(last) if last.0 == index => last.1 += mass,
            _ => merged.push((index, mass)),
        }
    }
    merged
}

impl Lattice {
    /// Sum of the weights.
    pub(super) fn total(&self) -> f64 {
        self.points.iter().map(|point| point.1).sum()
    }

    /// ln Σ w e^(s L): what another tilt would have as its normaliser, relative to this one.
    pub(super) fn retilted(&self, s: f64, step: f64) -> f64 {
        let at = |index: i64| s * (self.anchor + index as f64 * step);
        let exponents = self.points.iter().map(|&(i, w)| at(i) + libm::log(w));
        let largest = exponents.fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = self
            .points
            .iter()
            .map(|&(i, w)| w * libm::exp(at(i) - largest))
            .sum();
        largest + libm::log(sum)
    }
}
