//! A rough approximation of one loss, sufficient to choose a tilt, a window and a step.
//!
//! Nothing that is proved depends on it: a poor choice widens the bracket but does not invalidate a
//! bound.

use super::cells::affordable_cuts;
use crate::engines::loss::{Edge, Loss, mass_between};

/// Cells with a tilted share above this are bisected.
const COARSE: f64 = 1.0 / 96.0;

/// Cells whose error in the cumulant of the composition is above a twentieth of this are bisected.
const ROUGH: f64 = 0.1;

/// A loss as cells between edges, each represented by its barycentre.
#[derive(Debug, Clone)]
pub(super) struct Sketch<'a> {
    pub(super) loss: &'a Loss,
    pub(super) count: f64,
    edges: Vec<(f64, Edge)>,
    /// Position L and P-mass.
    cells: Vec<(f64, f64)>,
    /// Whether P and Q have the same total on the cells.
    balanced: bool,
}

impl<'a> Sketch<'a> {
    pub(super) fn new(loss: &'a Loss, count: f64) -> Option<Self> {
        let mut sketch = Self {
            loss,
            count,
            edges: first_edges(loss),
            cells: Vec::new(),
            balanced: !matches!(loss, Loss::Finite(_)),
        };
        sketch.gather(&loss.atoms()?);
        Some(sketch)
    }

    fn gather(&mut self, atoms: &[(f64, f64)]) {
        let anchor = self.loss.anchor();
        self.cells.clear();
        for pair in self.edges.windows(2) {
            let mass = mass_between(&pair[0].1, &pair[1].1);
            if mass.p > 0.0 {
                let (a, b) = (anchor + pair[0].0, anchor + pair[1].0);
                let position = libm::log(mass.p / mass.q);
                let middle = if position.is_finite() { position } else { b };
                self.cells.push((middle.clamp(a, b), mass.p));
            }
        }
        let points = atoms.iter().map(|&(t, p)| (anchor + t, p));
        self.cells.extend(points.filter(|(_, p)| *p > 0.0));
    }

    /// Removes everything above the first edge with at most the P-mass `above` beyond it.
    pub(super) fn cut_off(&mut self, above: f64) {
        if let Some(place) = self.edges.iter().position(|(_, e)| e.p.above <= above) {
            self.edges.truncate(place + 1);
            self.gather(&self.loss.atoms().unwrap_or_default());
        }
    }

    /// Bisects the cells that have much of the mass of the loss tilted by `lambda`.
    pub(super) fn refine(&mut self, lambda: f64) {
        let anchor = self.loss.anchor();
        let most = affordable_cuts(self.loss);
        for _ in 0..24 {
            let log_m = self.cumulant(lambda);
            let mut edges = Vec::with_capacity(2 * self.edges.len());
            let mut split = false;
            for pair in self.edges.windows(2) {
                let ((a, ea), (b, eb)) = (pair[0], pair[1]);
                edges.push((a, ea));
                let p = mass_between(&ea, &eb).p;
                let middle = 0.5 * (a + b);
                let share = p * libm::exp(lambda * (anchor + middle) - log_m);
                // a cell of width w has a relative error of (λ w)²/24, n times
                let bend = lambda.abs() * (b - a);
                let rough = self.count * share * bend * bend > ROUGH;
                if (share > COARSE || rough) && a < middle && middle < b {
                    edges.push((middle, self.loss.edge(middle)));
                    split = true;
                }
            }
            edges.extend(self.edges.last().copied());
            self.edges = edges;
            self.gather(&self.loss.atoms().unwrap_or_default());
            if !split || 2 * self.edges.len() > most {
                break;
            }
        }
    }

    /// ln `E_P`[e^(s L)] of a single loss, finite part.
    pub(super) fn cumulant(&self, s: f64) -> f64 {
        let exponents = self.cells.iter().map(|&(l, p)| s * l + libm::log(p));
        let largest = exponents.fold(f64::NEG_INFINITY, f64::max);
        if self.balanced && largest < 30.0 {
            let sum: f64 = self.cells.iter().map(|&(l, p)| p * excess(s, l)).sum();
            return libm::log1p(sum);
        }
        let terms = self
            .cells
            .iter()
            .map(|&(l, p)| p * libm::exp(s * l - largest));
        // p may be subnormal while the product is not
        let sum: f64 = terms.sum();
        largest + libm::log(sum)
    }

    /// The rightmost and leftmost t that matter: the P-mass above is at most `above`, the tilted
    /// mass below at most `below`.
    pub(super) fn ends(&self, lambda: f64, above: f64, below: f64) -> (f64, f64) {
        let anchor = self.loss.anchor();
        let log_m = self.cumulant(lambda);
        let tilted =
            |t: f64, e: &Edge| e.p.below * libm::exp((lambda * (anchor + t) - log_m).min(700.0));
        let low = self
            .edges
            .iter()
            .rev()
            .find(|(t, e)| tilted(*t, e) <= below);
        let high = self.edges.iter().find(|(_, e)| e.p.above <= above);
        let ends = (self.edges.first(), self.edges.last());
        (
            low.or(ends.0).map_or(0.0, |e| e.0),
            high.or(ends.1).map_or(0.0, |e| e.0),
        )
    }
}

/// e^(s l) - 1 - s (1 - e^-l): it has the mean E[e^(s L)] - 1 if P and Q have the same total, and
/// is of second order in l.
fn excess(s: f64, l: f64) -> f64 {
    if (s.abs() + 1.0) * l.abs() < 1e-4 {
        0.5 * s * (s + 1.0) * l * l * (1.0 + (s - 1.0) * l / 3.0)
    } else {
        libm::expm1(s * l) + s * libm::expm1(-l)
    }
}

/// Points whose distance from the anchor grows by a constant factor in both directions, within the
/// reach.
fn first_edges(loss: &Loss) -> Vec<(f64, Edge)> {
    let Some((low, high)) = loss.reach() else {
        return Vec::new();
    };
    let mut points = vec![0.0];
    for k in -160..=80 {
        let t = libm::exp2(0.5 * f64::from(k));
        points.extend([-t, t]);
    }
    points.extend([low, high].iter().filter(|t| t.is_finite()));
    points.retain(|t| *t >= low && *t <= high);
    points.sort_by(f64::total_cmp);
    points.dedup();
    points.into_iter().map(|t| (t, loss.edge(t))).collect()
}
