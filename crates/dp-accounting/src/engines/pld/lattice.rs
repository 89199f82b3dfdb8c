//! One discretised loss: sparse masses on a lattice, tilted.

use super::cells::{Cutting, cut};
use super::merged;
use crate::engines::loss::{Loss, ULP};

/// Which bound a discretisation provides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// An upper bound on the true profile.
    Upper,
    /// A lower bound on it.
    Lower,
}

/// Weights p e^(lambda L - `log_m`) at L = anchor + index * step.
#[derive(Debug, Clone)]
pub(super) struct Lattice {
    pub(super) anchor: f64,
    pub(super) points: Vec<(i64, f64)>,
    pub(super) log_m: f64,
    /// P-probability of an infinite loss.
    pub(super) infinite: f64,
    /// Bound on the sum of the errors of the weights.
    pub(super) error: f64,
    /// Bound on the distance of the points from their nominal positions.
    pub(super) shift: f64,
    pub(super) count: f64,
}

/// A factor e^x that neither overflows nor gives 0 times infinity.
fn exp(x: f64) -> f64 {
    libm::exp(x.min(700.0))
}

/// Discretises `loss` on the lattice given by `how`.
pub(super) fn discretise(loss: &Loss, how: &Cutting, side: Side) -> Option<Lattice> {
    let atoms = loss.atoms()?;
    let mut anchor = loss.anchor();
    let mut masses = Masses {
        infinite: loss.infinite_mass(),
        ..Masses::default()
    };
    match side {
        Side::Upper => masses.cut_from_above(loss, how),
        Side::Lower => {
            let merged = merged::merge(loss, how, !atoms.is_empty());
            anchor += merged.offset * how.step;
            masses.points = merged.points;
        }
    }
    for atom in atoms {
        masses.add_atom(atom, how, side);
    }
    let weight = |index: i64| exp(how.lambda * (anchor + index as f64 * how.step) - how.log_m);
    let errors = masses.errors.iter().map(|&(i, e)| e * weight(i));
    let error = errors.sum::<f64>();
    let mut points = gathered(masses.points);
    for point in &mut points {
        point.1 *= weight(point.0);
    }
    points.retain(|point| point.1 > 0.0);
    Some(Lattice {
        anchor,
        log_m: how.log_m,
        infinite: masses.infinite,
        error: error + rounding(&points, how, anchor),
        shift: 4.0 * ULP * anchor.abs() + masses.off_lattice,
        count: 1.0,
        points,
    })
}

/// P-masses while they are collected.
#[derive(Default)]
struct Masses {
    points: Vec<(i64, f64)>,
    /// Bounds on the errors of the masses, each at the point where the tilt makes it largest.
    errors: Vec<(i64, f64)>,
    infinite: f64,
    /// Maximum distance of an atom from its nominal point.
    off_lattice: f64,
}

impl Masses {
    /// The chords over the cells. Mass below the first cell moves up to it, mass above the last
    /// becomes infinite.
    fn cut_from_above(&mut self, loss: &Loss, how: &Cutting) {
        let Some((low, high)) = loss.reach() else {
            return;
        };
        for cell in cut(loss, how) {
            self.points.push((cell.from, cell.mass - cell.right));
            self.points.push((cell.to, cell.right));
            self.errors.push((cell.to, cell.error));
        }
        let clamp = |i: i64| (i as f64 * how.step).clamp(low, high);
        let (below, above) = (loss.edge(clamp(how.first)), loss.edge(clamp(how.last)));
        let mass = below.p.below * (1.0 + below.p.error);
        self.points.push((how.first, mass));
        self.infinite += above.p.above * (1.0 + above.p.error);
    }

    /// An atom on the lattice stays where it is. Otherwise it is split between the two adjacent
    /// points, or moved down.
    fn add_atom(&mut self, (t, mass): (f64, f64), how: &Cutting, side: Side) {
        let place = t / how.step;
        if !(place.abs() < 1e15) || mass <= 0.0 {
            return;
        }
        let nearest = place.round();
        let on_lattice = (place - nearest).abs() <= 1e-9 + 8.0 * ULP * place.abs();
        let base = if on_lattice { nearest } else { place.floor() };
        #[allow(clippy::cast_possible_truncation, reason = "below 1e15")]
        let from = base as i64;
        let error = 8.0 * ULP * (1.0 + place.abs());
        if on_lattice {
            let distance = (t - base * how.step).abs();
            self.off_lattice = self.off_lattice.max(distance + ULP * t.abs());
            self.points.push((from, mass));
        } else if side == Side::Lower {
            self.points.push((from, mass));
        } else {
            let inside = (place - base) * how.step;
            let share = libm::expm1(-inside) / libm::expm1(-how.step);
            let right = mass * (share + error).min(1.0);
            self.points.push((from, mass - right));
            self.points.push((from + 1, right));
        }
        let top = self.points.last().map_or(from, |point| point.0);
        self.errors.push((top, 4.0 * ULP * mass));
    }
}

/// Rounding errors of the masses, of e^(lambda L) and of the sums.
fn rounding(points: &[(i64, f64)], how: &Cutting, anchor: f64) -> f64 {
    let size = |index: i64| (how.lambda * (anchor + index as f64 * how.step)).abs();
    let terms = points
        .iter()
        .map(|&(index, w)| w * (16.0 + 2.0 * size(index)));
    ULP * (terms.sum::<f64>() + how.log_m.abs())
}

/// Adds up the masses at equal points; `points` are in any order.
fn gathered(mut points: Vec<(i64, f64)>) -> Vec<(i64, f64)> {
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

    /// ln Σ w e^(s L): the log-normaliser of another tilt, relative to this one.
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
