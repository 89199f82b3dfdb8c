//! A unit's clipped gradient in the parameters.

use dp_core::{UserRow, params};
use dp_mechanism::{SparseBuffer, VectorContribution};

use super::passes::Passes;
use crate::encoder::{PublicEncoder, SparseRows};
use crate::problem::{UnitValues, shorten};
use crate::{ProblemSetup, Result, UserStep, UserStepScratch};

/// One unit's share of the gradient in all parameters of an encoder.
///
/// ```text
/// g = sum_j w_j (<u, v_j> - y_j) J_j u,   scaled down to norm Gamma_g
/// ```
///
/// Source: Krichene et al. 2024, Algorithm 6, line 8, with users or examples as units. The forward pass and the Jacobian of every item are made
/// once, before any unit is looked at, and shared by all units. All gradients of a unit lie along the same `u`, so its products ([`PublicEncoder::products`]) are made once per unit, and an
/// example costs one number per active feature.
///
/// # Privacy
/// L2 sensitivity `Gamma_g` under add/remove by construction, whatever encoder and data; the kernel checks it in integers. Which items the encoder is asked for does not
/// depend on data. [`PublicEncoder::products`] is given users' vectors: see there.
#[allow(
    missing_debug_implementations,
    reason = "which items were looked at is private"
)]
pub struct EncoderGradients<'a, E> {
    setup: &'a ProblemSetup,
    encoder: &'a E,
    gradient_norm: f64,
    fitted: Option<(&'a UserStep, &'a [f64])>,
    n_products: usize,
    passes: Passes,
}

/// Working memory of one thread.
#[allow(
    missing_debug_implementations,
    reason = "holds one unit's gradient; printing it is never wanted"
)]
pub struct GradientScratch {
    unit: UnitValues,
    user_step: UserStepScratch,
    products: Vec<f64>,
    coefficients: SparseRows,
    gradient: Vec<(u32, f64)>,
}

impl<'a, E: PublicEncoder> EncoderGradients<'a, E> {
    /// The contribution at the encoder's present parameters, which are public or released. All items' passes are made here.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] for an encoder of another length of vectors, or one whose parameters or Jacobians do not fit together; those of its passes.
    pub fn new(setup: &'a ProblemSetup, encoder: &'a E, gradient_norm: f64) -> Result<Self> {
        let (dim, n_products) = (setup.dim, encoder.n_products());
        params::at_least_one("dim", dim)?;
        params::same_size("encoder's dim", encoder.dim(), dim)?;
        params::at_least_one("n_products", n_products)?;
        let n_rows = encoder.parameters().len() / dim;
        params::same_size("parameters", encoder.parameters().len(), n_rows * dim)?;
        // products that do not fit show here, not at the first unit
        encoder.products(&vec![0.0; dim], &mut vec![0.0; n_products * dim]);
        Ok(Self {
            setup,
            encoder,
            gradient_norm,
            fitted: None,
            n_products,
            passes: Passes::new(encoder, dim)?,
        })
    }

    /// The same with users' vectors and levels fitted by a user step on all of a user's own ratings, at item vectors that are public or released, shape `(m, d)`.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when the item vectors have another shape.
    pub fn with_user_step(mut self, step: &'a UserStep, item_vectors: &'a [f64]) -> Result<Self> {
        let n = self.passes.n_numbers();
        params::same_size("item vectors", item_vectors.len(), n)?;
        self.fitted = Some((step, item_vectors));
        Ok(self)
    }

    /// The unit's vector, weights and labels.
    fn read(&self, unit: UserRow<'_>, own: &mut GradientScratch) {
        own.unit.read(self.setup, unit);
        let Some((step, item_vectors)) = self.fitted else {
            return;
        };
        let vector = &mut own.unit.vector;
        let level = step.solve(item_vectors, unit, &mut own.user_step, vector);
        shorten(vector, self.setup.user_norm);
        let bound = self.setup.label_bound;
        for (label, &y) in own.unit.labels.iter_mut().zip(unit.values()) {
            *label = (f64::from(y) - level).clamp(-bound, bound);
        }
    }

    /// `sum_j w_j (<u, v_j> - y_j) scale` per row and product.
    fn add_coefficients(&self, unit: UserRow<'_>, own: &mut GradientScratch) {
        own.coefficients.clear();
        let values = own.unit.labels.iter().zip(&own.unit.weights);
        for (&item, (y, w)) in unit.items().iter().zip(values) {
            let Some((vector, jacobian)) = self.passes.of(item) else {
                continue;
            };
            let each = own.unit.vector.iter().zip(vector);
            let score: f64 = each.map(|(u, v)| u * v).sum();
            let slope = w * (score - y);
            for entry in jacobian {
                let place = entry.product as usize;
                own.coefficients
                    .add_one(entry.row, place, slope * entry.scale);
            }
        }
    }

    /// The gradient row by row, rows increasing.
    fn expand(&self, own: &mut GradientScratch) {
        let dim = self.setup.dim;
        own.gradient.clear();
        let mut rows: Vec<_> = own.coefficients.iter().collect();
        rows.sort_unstable_by_key(|&(row, _)| row);
        for (row, coefficients) in rows {
            for a in 0..dim {
                let products = own.products.iter().skip(a).step_by(dim);
                let value: f64 = coefficients.iter().zip(products).map(|(c, q)| c * q).sum();
                let at = u32::try_from(row as usize * dim + a).unwrap_or(u32::MAX); // checked by the plan
                own.gradient.push((at, value));
            }
        }
    }
}

impl<E: PublicEncoder> VectorContribution for EncoderGradients<'_, E> {
    type Scratch = GradientScratch;

    fn scratch(&self) -> GradientScratch {
        let (dim, n_products) = (self.setup.dim, self.n_products);
        GradientScratch {
            unit: UnitValues::default(),
            user_step: UserStepScratch::default(),
            products: vec![0.0; dim * n_products],
            coefficients: SparseRows::new(n_products),
            gradient: Vec::new(),
        }
    }

    fn contribute(&self, unit: UserRow<'_>, own: &mut GradientScratch, out: &mut SparseBuffer) {
        self.read(unit, own);
        self.add_coefficients(unit, own);
        self.encoder.products(&own.unit.vector, &mut own.products);
        self.expand(own);
        let squares = own.gradient.iter().map(|(_, g)| g * g).sum::<f64>();
        let norm = squares.sqrt();
        if !norm.is_finite() {
            return; // parameters far out: this unit says nothing
        }
        let scale = if norm > self.gradient_norm {
            self.gradient_norm / norm
        } else {
            1.0
        };
        out.extend(own.gradient.iter().map(|&(at, g)| (at, scale * g)));
    }
}
