//! DP-SGD with one pass per item and step: Algorithm 6.

use dp_accounting::{CertificateBuilder, Requests};
use dp_core::{Adjacency, Interactions, Private, ShapeError, UserRow, parallel, params};
use dp_mechanism::{PoissonSampling, Run, SparseBuffer, Trainer, VectorContribution};

use crate::encoder::{JacobianEntry, Optimiser, OptimiserState, PublicEncoder, SparseRows};
use crate::features::in_public_range;
use crate::problem::{UnitValues, Vectors, shorten};
use crate::{Error, ProblemSetup, Result, UserStep, UserStepScratch, With, trainer};

/// Settings of [`DpSgd`] before validation. All are public.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DpSgdParams {
    /// Bounds, weights and unit.
    pub setup: ProblemSetup,
    /// Number of steps `T`, 1 to 100,000.
    pub n_steps: usize,
    /// Probability that a unit is in a step's batch, in (0, 1].
    pub sampling_probability: f64,
    /// Bound `Gamma_g` on a unit's gradient, from 1e-6 to 1e6.
    pub gradient_norm: f64,
    /// How the noisy gradient moves the parameters. It moves all of them, because all of them have
    /// noise.
    pub optimiser: Optimiser,
}

impl DpSgdParams {
    /// The gradient bound is the largest gradient of one example with respect to its item's vector
    /// where that vector is 0, `Gamma_u min(B, Gamma_y)`. This is a starting point; smaller bounds
    /// are worth trying.
    #[must_use]
    pub const fn new(
        setup: ProblemSetup,
        n_steps: usize,
        sampling_probability: f64,
        optimiser: Optimiser,
    ) -> Self {
        Self {
            n_steps,
            sampling_probability,
            gradient_norm: setup.user_norm * setup.label_reach(),
            optimiser,
            setup,
        }
    }

    /// Checks every range.
    ///
    /// # Errors
    /// [`crate::Error::Param`] naming the first setting out of range.
    pub fn check(self) -> Result<DpSgd> {
        self.setup.check()?;
        let range = "a whole number from 1 to 100000";
        params::in_range("n_steps", self.n_steps, 1, 100_000, range)?;
        in_public_range("gradient_norm", self.gradient_norm)?;
        self.optimiser.check()?;
        let sampling = PoissonSampling::new(self.sampling_probability)?;
        Ok(DpSgd {
            params: self,
            sampling,
        })
    }
}

/// DP-SGD for multi-encoder models, with one forward and backward pass per item and step, whichever
/// units are in the batch.
///
/// ```text
/// G = (1/q) [sum_{k in batch} clip(g_k, Gamma_g) + Gamma_g z N(0, I)],   theta <- theta - optimiser's step of G
/// ```
///
/// Source: Krichene et al. 2024, Algorithm 6 (its noise is `sigma Gamma_g`, printed without the
/// index). This is the baseline for the methods based on item statistics: it adds noise to all
/// `n_rows d` parameters in every step.
///
/// # Privacy
/// Released, and visible to anyone: the noisy gradient of every step, with sensitivity `Gamma_g`
/// ([`EncoderGradients`]), on a Poisson sample of the units that stays secret. All steps are
/// accounted for as such and reserved together on a
/// [`Budget::schedule`](dp_accounting::Budget::schedule). Unit: as in [`ProblemSetup::unit`].
///
/// # Examples
/// ```
/// use dp_core::{Adjacency, ApproxDp};
/// use dp_pubfeat::{DpSgdParams, Optimiser, ProblemSetup};
/// let sgd = DpSgdParams {
///     gradient_norm: 0.5,
///     ..DpSgdParams::new(ProblemSetup::new(8, 1.0), 100, 0.05, Optimiser::Adam { rate: 0.01 })
/// };
/// let plan = sgd.check()?.plan(2000, ApproxDp::target(5.0, 1e-5)?, Adjacency::AddRemoveUser)?;
/// assert_eq!(plan.releases().len(), 100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct DpSgd {
    params: DpSgdParams,
    sampling: PoissonSampling,
}

const OUTPUT: &str = "the encoder after every step, item vectors, settings";
const SECRET: &str = "who was in the batch of which step stays secret";

trainer::algorithm! {
    DpSgd of DpSgdParams, over n_rows,
    /// The trainer of `encoder` on users' given vectors. A run ends with [`Error::Diverged`] when a
    /// parameter is no longer finite.
}

impl DpSgd {
    fn requests(&self, n_rows: usize, adjacency: Adjacency) -> Result<Requests> {
        self.params.setup.unit.check(adjacency)?;
        let n = n_rows.saturating_mul(self.params.setup.dim);
        trainer::check_coordinates(n)?;
        let n_steps = self.params.n_steps;
        Ok(trainer::sampled_steps(
            "gradient",
            n_steps,
            self.sampling,
            n,
        ))
    }

    /// AM-DPSGD for ratings (Algorithm 1 with DP-SGD as the item update): every `steps_per_round`
    /// steps users refit vectors and levels, exactly and locally, at the current item vectors.
    /// Users' features in the table are ignored. The plan is that of [`plan`](Self::plan).
    ///
    /// # Privacy
    /// As for [`with`](Self::with): a user's gradient is a function of the user's own ratings and
    /// of released parameters, independent of who was in which batch, and is bounded by `Gamma_g`.
    /// Users' vectors never leave. Unit: the user; single examples as units are refused when the
    /// trainer is run.
    ///
    /// # Errors
    /// [`Error::Param`] for a user step out of range or 0 steps per round.
    pub fn alternating<E>(
        &self,
        encoder: E,
        user_step: UserStep,
        steps_per_round: usize,
    ) -> Result<With<Self, Alternating<E>>> {
        user_step.check()?;
        params::at_least_one("steps_per_round", steps_per_round)?;
        let start = Alternating {
            encoder,
            user_step,
            steps_per_round,
        };
        let settings = self.clone();
        Ok(With { settings, start })
    }

    /// All steps, with users' given vectors or with those fitted by `users`.
    fn steps<E: PublicEncoder>(
        &self,
        mut encoder: E,
        users: Option<(&UserStep, usize)>,
        rows: &Private<Interactions>,
        run: &mut Run<'_>,
    ) -> Result<E> {
        let dim = self.params.setup.dim;
        let mut state = OptimiserState::new(self.params.optimiser, dim)?;
        let items: Vec<u32> = (0_u32..).take(encoder.n_items()).collect();
        let mut at = vec![0.0; items.len() * dim];
        for step in 0..self.params.n_steps {
            if let Some((_, each)) = users.filter(|(_, each)| step.is_multiple_of(*each)) {
                encoder.forward(&items, &mut at)?;
                trainer::show_round(run, step / each, &at, dim);
            }
            let users = users.map(|(user_step, _)| (user_step, &*at));
            let gradient = self.gradient(&encoder, users, rows, run)?;
            advance(&mut encoder, &mut state, &gradient)?;
        }
        if let Some((_, each)) = users {
            encoder.forward(&items, &mut at)?;
            trainer::show_round(run, self.params.n_steps.div_ceil(each), &at, dim);
        }
        Ok(encoder)
    }

    fn gradient<E: PublicEncoder>(
        &self,
        encoder: &E,
        users: Option<(&UserStep, &[f64])>,
        rows: &Private<Interactions>,
        run: &mut Run<'_>,
    ) -> Result<Vec<f64>> {
        let params = &self.params;
        let n = encoder.parameters().len();
        let mut gradients = EncoderGradients::new(&params.setup, encoder, params.gradient_norm)?;
        if let Some((step, item_vectors)) = users {
            gradients = gradients.with_user_step(step, item_vectors)?;
        }
        let shape = (n, params.gradient_norm);
        let released = run.sampled_vector(self.sampling, rows, shape, &gradients)?;
        let q = self.sampling.sampling_probability();
        #[cfg(privacy_mutants)]
        let q = crate::mutants::denominator(q, rows);
        let mut values = released.values();
        values.iter_mut().for_each(|g| *g /= q);
        Ok(values)
    }
}

/// The starting point of AM-DPSGD, see [`DpSgd::alternating`].
#[derive(Debug, Clone, PartialEq)]
pub struct Alternating<E> {
    encoder: E,
    user_step: UserStep,
    steps_per_round: usize,
}

impl<E: PublicEncoder + Clone> Trainer for With<DpSgd, E> {
    type Data = Private<Interactions>;
    type Model = E;
    type Error = Error;

    fn width(&self, _: &Self::Data) -> usize {
        n_rows(&self.start)
    }

    fn requests(&self, n_rows: usize, adjacency: Adjacency) -> Result<Requests> {
        self.settings.requests(n_rows, adjacency)
    }

    fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        let said = (&self.settings.params.setup, Vectors::Given);
        trainer::describe(certificate, said, (OUTPUT, &[SECRET]))
    }

    fn train(&self, data: &Self::Data, run: &mut Run<'_>) -> Result<E> {
        let (settings, encoder) = (&self.settings, &self.start);
        let setup = &settings.params.setup;
        trainer::check(setup, (encoder.n_items(), encoder.dim()), data, run)?;
        setup.unit.with_rows(data, |rows| {
            settings.steps(encoder.clone(), None, rows, run)
        })
    }
}

impl<E: PublicEncoder + Clone> Trainer for With<DpSgd, Alternating<E>> {
    type Data = Private<Interactions>;
    type Model = E;
    type Error = Error;

    fn width(&self, _: &Self::Data) -> usize {
        n_rows(&self.start.encoder)
    }

    fn requests(&self, n_rows: usize, adjacency: Adjacency) -> Result<Requests> {
        self.settings.requests(n_rows, adjacency)
    }

    fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        let said = (&self.settings.params.setup, Vectors::Fitted);
        trainer::describe(certificate, said, (OUTPUT, &[SECRET]))
    }

    fn train(&self, ratings: &Self::Data, run: &mut Run<'_>) -> Result<E> {
        let Alternating {
            encoder,
            user_step,
            steps_per_round,
        } = &self.start;
        let setup = &self.settings.params.setup;
        setup.check_ratings(ratings, (encoder.n_items(), encoder.dim()))?;
        let users = Some((user_step, *steps_per_round));
        self.settings.steps(encoder.clone(), users, ratings, run)
    }
}

/// Number of rows of an encoder's parameters.
fn n_rows(encoder: &impl PublicEncoder) -> usize {
    encoder.parameters().len() / encoder.dim().max(1)
}

/// Moves all parameters.
fn advance<E: PublicEncoder>(
    encoder: &mut E,
    state: &mut OptimiserState,
    gradient: &[f64],
) -> Result<()> {
    state.step_all(gradient, encoder.parameters_mut());
    if encoder.parameters().iter().all(|t| t.is_finite()) {
        return Ok(());
    }
    Err(Error::Diverged)
}

/// One unit's contribution to the gradient in all parameters of an encoder.
///
/// ```text
/// g = sum_j w_j (<u, v_j> - y_j) J_j u,   scaled down to norm Gamma_g
/// ```
///
/// Source: Krichene et al. 2024, Algorithm 6, line 8, with users or examples as units. The forward
/// pass and the Jacobian of every item are computed once, before any unit is read, and shared by
/// all units. All gradients of a unit lie along the same `u`, so its products
/// ([`PublicEncoder::products`]) are computed once per unit, and an example costs one number per
/// active feature.
///
/// # Privacy
/// L2 sensitivity `Gamma_g` under add/remove by construction, whatever the encoder and the data;
/// the kernel checks it in integers. The items that the encoder is called with do not depend on
/// data. [`PublicEncoder::products`] receives users' vectors: see its documentation.
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

/// Scratch memory of one thread.
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
    /// The contribution at the encoder's current parameters, which are public or released. The
    /// passes of all items are computed here.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] for an encoder with another vector length, or with parameters or
    /// Jacobians of inconsistent shape; errors of its passes.
    pub fn new(setup: &'a ProblemSetup, encoder: &'a E, gradient_norm: f64) -> Result<Self> {
        let (dim, n_products) = (setup.dim, encoder.n_products());
        params::at_least_one("dim", dim)?;
        params::same_size("encoder's dim", encoder.dim(), dim)?;
        params::at_least_one("n_products", n_products)?;
        let n_rows = encoder.parameters().len() / dim;
        params::same_size("parameters", encoder.parameters().len(), n_rows * dim)?;
        // wrong product sizes are detected here, not at the first unit
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

    /// The same contribution with users' vectors and levels fitted by a user step on all of a
    /// user's own ratings, at item vectors that are public or released, shape `(m, d)`.
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
            return; // the parameters have diverged: this unit adds nothing
        }
        let scale = if norm > self.gradient_norm {
            self.gradient_norm / norm
        } else {
            1.0
        };
        out.extend(own.gradient.iter().map(|&(at, g)| (at, scale * g)));
    }
}

/// Forward and backward passes of all items.
pub(super) struct Passes {
    dim: usize,
    /// `(m, d)`.
    vectors: Vec<f64>,
    jacobians: Vec<Vec<JacobianEntry>>,
}

impl Passes {
    pub(super) fn new<E: PublicEncoder>(encoder: &E, dim: usize) -> Result<Self> {
        let items: Vec<u32> = (0_u32..).take(encoder.n_items()).collect();
        let mut vectors = vec![0.0; items.len() * dim];
        encoder.forward(&items, &mut vectors)?;
        let sizes = (encoder.parameters().len() / dim, encoder.n_products());
        let jacobians = parallel::map(items.len(), |at| {
            let mut entries = Vec::new();
            encoder.jacobian(items[at], &mut entries)?;
            check_entries(&entries, sizes)?;
            Ok(entries)
        });
        Ok(Self {
            dim,
            jacobians: jacobians.into_iter().collect::<Result<_>>()?,
            vectors,
        })
    }

    /// Numbers in all vectors, `m d`.
    pub(super) const fn n_numbers(&self) -> usize {
        self.vectors.len()
    }

    /// None for an item that the encoder does not have; the tables of a fit contain no such item.
    pub(super) fn of(&self, item: u32) -> Option<(&[f64], &[JacobianEntry])> {
        let jacobian = self.jacobians.get(item as usize)?;
        Some((
            &self.vectors[item as usize * self.dim..][..self.dim],
            jacobian,
        ))
    }
}

/// Checks that entries refer to existing rows and products.
fn check_entries(entries: &[JacobianEntry], (n_rows, n_products): (usize, usize)) -> Result<()> {
    let beyond = |found: u32, expected| (found as usize >= expected).then_some((found, expected));
    for entry in entries {
        let (name, wrong) = match beyond(entry.row, n_rows) {
            None => (
                "product of a Jacobian's entry",
                beyond(entry.product, n_products),
            ),
            row => ("row of a Jacobian's entry", row),
        };
        if let Some((found, expected)) = wrong {
            let found = found as usize;
            return Err(ShapeError::new(name, found, expected).into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;

    use dp_core::InteractionsBuilder;
    use dp_mechanism::{Grid, vector_contribution};

    use super::super::EncoderGradients;
    use super::*;
    use crate::{ItemFeaturesBuilder, LinearEncoder, ProblemSetup};

    /// A linear encoder that records its calls and may return a wrong entry.
    struct Counting {
        inner: LinearEncoder,
        n_asked: AtomicUsize,
        wrong: Option<JacobianEntry>,
    }

    impl PublicEncoder for Counting {
        fn n_items(&self) -> usize {
            self.inner.n_items()
        }

        fn dim(&self) -> usize {
            self.inner.dim()
        }

        fn parameters(&self) -> &[f64] {
            self.inner.parameters()
        }

        fn parameters_mut(&mut self) -> &mut [f64] {
            self.inner.parameters_mut()
        }

        fn forward(&self, items: &[u32], out: &mut [f64]) -> Result<()> {
            self.n_asked.fetch_add(items.len(), Relaxed);
            self.inner.forward(items, out)
        }

        fn jacobian(&self, item: u32, out: &mut Vec<JacobianEntry>) -> Result<()> {
            self.n_asked.fetch_add(1, Relaxed);
            self.inner.jacobian(item, out)?;
            out.extend(self.wrong);
            Ok(())
        }
    }

    fn counting(wrong: Option<JacobianEntry>) -> Counting {
        let mut features = ItemFeaturesBuilder::new(5, &[2]).unwrap();
        for item in [1, 3] {
            features.push(item, 0, 1.0).unwrap();
        }
        Counting {
            inner: LinearEncoder::zeros(features.build().into(), 1).unwrap(),
            n_asked: AtomicUsize::new(0),
            wrong,
        }
    }

    #[test]
    fn the_encoder_is_asked_for_every_item_once_whatever_units_have() {
        let mut data = InteractionsBuilder::new(5).with_feature_dim(1);
        for user in 0..9 {
            data.set_features(user, &[1.0]).unwrap();
            data.push(user, 1 + 2 * (user % 2), 0.5).unwrap();
        }
        let (encoder, setup) = (counting(None), ProblemSetup::new(1, 1.0));
        let gradients = EncoderGradients::new(&setup, &encoder, 1.0).unwrap();
        let grid = Grid::new(1.0, 1.0).unwrap();
        assert_eq!(encoder.n_asked.load(Relaxed), 5 + 5);
        for row in data.build().0.users() {
            assert!(!vector_contribution(&grid, 2, &gradients, row).is_empty());
        }
        assert_eq!(encoder.n_asked.load(Relaxed), 5 + 5);
    }

    #[test]
    fn encoders_that_do_not_fit_are_refused_before_any_unit() {
        let setup = ProblemSetup::new(1, 1.0);
        for (row, product) in [(2, 0), (0, 1)] {
            let scale = 1.0;
            let wrong = counting(Some(JacobianEntry {
                row,
                scale,
                product,
            }));
            let refused = EncoderGradients::new(&setup, &wrong, 1.0);
            assert!(matches!(refused, Err(crate::Error::Shape(_))));
        }
        let longer = ProblemSetup::new(2, 1.0);
        assert!(EncoderGradients::new(&longer, &counting(None), 1.0).is_err());
    }
}
