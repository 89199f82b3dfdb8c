//! From the losses of one direction to the two compositions that bracket it.

use super::cells::Cutting;
use super::composed::{Composed, Recipe};
use super::lattice::{Lattice, Side, discretise};
use super::sketch::Sketch;
use super::tilt::{self, Window};
use crate::engines::loss::Loss;

/// The requested quantity.
#[derive(Debug, Clone, Copy)]
pub(super) enum Query {
    /// Epsilon at the logarithm of a delta.
    Epsilon { log_delta: f64 },
    /// Delta at an epsilon.
    Delta { epsilon: f64 },
}

/// The effort to spend.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effort {
    /// Target width of the bracket, relative to epsilon.
    pub(super) goal: f64,
    /// Maximum number of points of a full transform.
    pub(super) most: f64,
}

/// The tilt, the window and the step for one direction.
pub(super) struct Plan<'a> {
    sketches: Vec<Sketch<'a>>,
    lambda: f64,
    /// A bound on epsilon, or the given epsilon.
    pub(super) guess: f64,
    log_delta: f64,
    window: Window,
}

impl<'a> Plan<'a> {
    pub(super) fn new(losses: &'a [(Loss, f64)], query: Query) -> Option<Self> {
        let sketch = |(loss, count): &'a (Loss, f64)| Sketch::new(loss, *count);
        let mut sketches: Vec<Sketch<'a>> = losses.iter().map(sketch).collect::<Option<_>>()?;
        for sketch in &mut sketches {
            sketch.refine(0.0);
        }
        let solve = |sketches: &[Sketch<'_>]| match query {
            Query::Epsilon { log_delta } => {
                let (lambda, epsilon) = tilt::for_delta(sketches, log_delta);
                (lambda, epsilon, log_delta)
            }
            Query::Delta { epsilon } => {
                let (lambda, log_delta) = tilt::for_epsilon(sketches, epsilon);
                (lambda, epsilon, log_delta)
            }
        };
        let n = losses.iter().map(|(_, count)| count).sum::<f64>();
        if let Query::Epsilon { log_delta } = query {
            cut_off(&mut sketches, log_delta, n);
        }
        let (mut lambda, mut guess, mut log_delta) = solve(&sketches);
        for _ in 0..3 {
            cut_off(&mut sketches, log_delta, n);
            for sketch in &mut sketches {
                sketch.refine(lambda);
            }
            (lambda, guess, log_delta) = solve(&sketches);
        }
        let mut window = tilt::window(&sketches, lambda);
        for _ in 0..2 {
            for sketch in &mut sketches {
                sketch.refine(lambda + window.up);
                sketch.refine(lambda - window.down);
            }
            window = tilt::window(&sketches, lambda);
        }
        let usable = lambda > 0.0 && (window.high - window.low).is_finite() && guess.is_finite();
        usable.then_some(Self {
            sketches,
            lambda,
            guess,
            log_delta,
            window,
        })
    }

    /// Where to search for epsilon, and the distance from there within which the tilt keeps delta
    /// accurate.
    pub(super) fn near(&self) -> (f64, f64) {
        (self.guess, 1.0 / self.lambda)
    }

    /// The bound on one side.
    pub(super) fn compose(&self, side: Side, effort: Effort) -> Option<Composed> {
        let most_count = self.sketches.iter().map(|s| s.count).fold(0.0, f64::max);
        let fine = self.step(effort);
        let span = self.window.high - self.window.low;
        if (most_count >= 64.0 || span / fine.0 <= effort.most)
            && let Some(done) = self.attempt(side, fine.0, fine.1)
        {
            return Some(done);
        }
        // coarser, so that one transform covers the window
        let coarse = self.aligned((span / (0.98 * effort.most)).max(fine.0));
        self.attempt(side, coarse, fine.1.max(coarse * coarse))
    }

    fn attempt(&self, side: Side, step: f64, budget: f64) -> Option<Composed> {
        let span = (self.window.high - self.window.low) / step + 4.0;
        if !(span < 1e14) {
            return None;
        }
        let mut period = 64_i64;
        while (period as f64) < span {
            period *= 2;
        }
        let lattices = self.lattices(side, step, budget)?;
        Composed::new(&Recipe {
            lattices: &lattices,
            step,
            lambda: self.lambda,
            window: &self.window,
            period,
        })
    }

    fn lattices(&self, side: Side, step: f64, budget: f64) -> Option<Vec<Lattice>> {
        let n = self.sketches.iter().map(|s| s.count).sum::<f64>();
        let one = |sketch: &Sketch<'_>| {
            let log_m = sketch.cumulant(self.lambda);
            let above = negligible(self.log_delta, n);
            let (low, high) = sketch.ends(self.lambda, above, 1e-13 / n);
            let (low, high) = ((low / step).floor() - 1.0, (high / step).ceil() + 1.0);
            if !(low.abs() < 1e15 && high.abs() < 1e15) {
                return None;
            }
            #[allow(clippy::cast_possible_truncation, reason = "below 1e15")]
            let how = Cutting {
                step,
                lambda: self.lambda,
                log_m,
                tolerance: budget / (sketch.count * self.sketches.len() as f64 * 1500.0),
                first: low as i64,
                last: high as i64,
            };
            let mut lattice = discretise(sketch.loss, &how, side)?;
            lattice.count = sketch.count;
            Some(lattice)
        };
        self.sketches.iter().map(one).collect()
    }

    /// The step, and the budget Σ n E[w²] for the widths w of the cells: chords raise K by
    /// λ(λ+1)/2 E[w²]/6 and merging lowers it by half as much, so the bracket is
    /// (λ+1)/8 Σ n E[w²] wide.
    fn step(&self, effort: Effort) -> (f64, f64) {
        let scale = match self.guess {
            e if e * self.lambda > 1e-2 => e,
            _ => 1e-2 / self.lambda,
        };
        let budget = 8.0 * effort.goal * scale / (self.lambda + 1.0);
        if let Some(step) = self.common_step() {
            return (step, budget);
        }
        let parts = self.sketches.len() as f64;
        let finest = self
            .sketches
            .iter()
            .filter(|s| s.loss.lattice().is_none())
            .map(|s| (budget / (parts * s.count)).sqrt())
            .fold(f64::INFINITY, f64::min);
        let span = self.window.high - self.window.low;
        let affordable = span / effort.most;
        let step = finest.min(0.25 / (self.lambda + 1.0)).min(span / 4096.0);
        // if one transform covers the window anyway, it may as well be used completely
        (self.aligned(step.min(affordable.max(step * 0.05))), budget)
    }

    /// The step of a lattice without offset that contains every loss.
    fn common_step(&self) -> Option<f64> {
        let mut common = 0.0_f64;
        for sketch in &self.sketches {
            let step = sketch.loss.lattice()?;
            common = common_measure(common, step)?;
        }
        (common > 0.0).then_some(common)
    }

    /// The next smaller step that puts both atoms of the first Laplace loss on the lattice.
    fn aligned(&self, step: f64) -> f64 {
        let distance = self.sketches.iter().find_map(|s| match s.loss {
            Loss::Laplace { .. } | Loss::SampledLaplace { .. } => {
                s.loss.reach().map(|(low, high)| {
                    if low < -0.5 * high {
                        high.max(-low)
                    } else {
                        high - low
                    }
                })
            }
            _ => None,
        });
        match distance {
            Some(d) if d > step => d / (d / step).ceil(),
            _ => step,
        }
    }
}

/// P-mass that each of n losses may lose at its upper end.
fn negligible(log_delta: f64, n: f64) -> f64 {
    libm::exp(log_delta.max(-690.0)) * 1e-10 / n
}

/// Removes the upper ends of the losses that do not affect delta. Under the tilt they could
/// dominate.
fn cut_off(sketches: &mut [Sketch<'_>], log_delta: f64, n: f64) {
    for sketch in sketches {
        sketch.cut_off(negligible(log_delta, n));
    }
}

/// The largest number of which both are small integer multiples, up to rounding.
fn common_measure(a: f64, b: f64) -> Option<f64> {
    let (mut large, mut small) = (a.max(b), a.min(b));
    let scale = small;
    if small == 0.0 {
        return Some(large);
    }
    for _ in 0..40 {
        let rest = large - (large / small).round() * small;
        if rest.abs() <= 1e-12 * large {
            return Some(small);
        }
        (large, small) = (small, rest.abs());
        if small < scale / 4096.0 {
            return None;
        }
    }
    None
}
