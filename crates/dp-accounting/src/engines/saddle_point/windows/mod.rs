//! How much of a tilted loss is spread out, which makes its characteristic function small.

mod laplace;
mod mixture;

use super::nodes::Demand;
use crate::engines::loss::Loss;

/// Stretches of the loss with a lower bound on its density there.
///
/// A uniform density f over a length l contributes at most 2 f |sin(t l/2)| / t to E[e^{itL}], which
/// is f l |sin(y)|/y with y = t l/2. So if disjoint stretches g of lengths l(g) carry densities of at
/// least f(g), then for any t
///
/// ```text
/// |E[e^{itL}]| <= 1 - Σ_g f(g) l(g) (1 - 1/y(g))
/// ```
///
/// and with y(g) >= Y at t the bound with Y in place of y(g) holds for this t and all larger ones.
#[derive(Debug, Clone)]
pub(super) struct Windows {
    /// Length and least density, in order of the loss.
    cells: Vec<(f64, f64)>,
}

/// Most cells of a loss.
const MAX_CELLS: f64 = 4_000.0;

impl Windows {
    /// The stretches of a loss tilted by e^{cL}; `log_mgf` is K(c). None are known of a loss that is
    /// not smooth.
    pub(super) fn new(loss: &Loss, demand: Demand, log_mgf: f64) -> Self {
        let c = demand.c;
        let cells = match loss {
            Loss::Mixture(one) => mixture::cells(one, demand, log_mgf),
            &Loss::Laplace { epsilon } => laplace::plain(epsilon, c, log_mgf),
            &Loss::BoundedRange { epsilon } => laplace::bounded_range(epsilon, c, log_mgf),
            &Loss::SampledLaplace { epsilon, q, side } => {
                laplace::sampled(&laplace::Sampled { epsilon, q, side }, c, log_mgf)
            }
            Loss::Gaussian { .. }
            | Loss::DiscreteGaussian { .. }
            | Loss::Finite(_)
            | Loss::WithoutReplacement { .. } => Vec::new(),
        };
        Self { cells }
    }

    /// ln of a bound on |E[e^{iuL}]| that holds from some u on: what the density does not hold.
    pub(super) fn log_rest(&self) -> f64 {
        let spread: f64 = self
            .cells
            .iter()
            .map(|(length, density)| length * density)
            .sum();
        libm::log1p(-(spread * (1.0 - 1e-9)).clamp(0.0, 1.0))
    }

    /// A bound on |E[e^{iuL}]| for every u >= t.
    pub(super) fn log_modulus_from(&self, t: f64) -> f64 {
        let captured = TURNS
            .iter()
            .map(|y| self.spread_over(2.0 * y / t) * (1.0 - 1.0 / y))
            .fold(0.0, f64::max);
        libm::log1p(-(captured * (1.0 - 1e-9)).clamp(0.0, 1.0))
    }

    /// Largest total of density times length over disjoint stretches of at least `enough`, as far
    /// as a greedy choice finds it.
    fn spread_over(&self, enough: f64) -> f64 {
        let (mut total, mut length, mut least) = (0.0, 0.0, f64::INFINITY);
        for &(cell_length, density) in &self.cells {
            length += cell_length;
            least = f64::min(least, density);
            if length >= enough {
                total += length * least;
                (length, least) = (0.0, f64::INFINITY);
            }
        }
        total
    }
}

/// Values of Y that are tried.
const TURNS: [f64; 5] = [1.5, 2.5, 5.0, 12.0, 30.0];
