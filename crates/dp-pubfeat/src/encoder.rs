//! Encoders of items' public features, and optimisers for their parameters.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use dp_core::params;
use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

use crate::features::check_items;
use crate::{ItemFeatures, Result};

/// `v_j = v(theta, x_j)`: item vectors computed from public features, and derivatives with respect
/// to `theta`.
///
/// Parameters are rows of width `dim`. The Jacobian of an item is given in parts, so that many
/// gradients at one item cost one pass over its features: with `q_0 = g, q_1, ..., q_k` the
/// [`products`](Self::products) of a gradient `g` in `v`, and the item's
/// [`jacobian`](Self::jacobian), a list of `(row, scale, product)`, the gradient in `theta` is
///
/// ```text
/// row r:  sum of scale * q_product  over the item's entries for r
/// ```
///
/// Rows that appear in no entry have gradient 0 and are not visited.
///
/// # Privacy
/// Public: features and parameters only. Training on released statistics is post-processing, and so
/// is every call that a learner makes to an encoder.
///
/// In [`DpSgd`](crate::DpSgd) all methods but one are called for all items alike, before any user
/// is read. **The exception is [`products`](Self::products), which receives users' private
/// vectors.** The guarantee relies on these requirements for an implementation:
///
/// * all methods except `parameters_mut` are pure functions of public features, parameters and
///   arguments: they keep no state between calls (no caches, counters, random numbers), write
///   nothing and send nothing;
/// * sizes (`n_items`, `dim`, `n_products`, the number of parameters) never change;
/// * `products` does not panic, whatever the numbers, and its running time does not depend on them.
pub trait PublicEncoder: Sync {
    /// Number of items `m`.
    fn n_items(&self) -> usize;

    /// Length `d` of an item's vector and of a row of parameters.
    fn dim(&self) -> usize;

    /// Parameters, shape `(n_rows, dim)`, row-major.
    fn parameters(&self) -> &[f64];

    /// The parameters, mutable.
    fn parameters_mut(&mut self) -> &mut [f64];

    /// Writes the vectors of `items`, shape `(items.len(), dim)`.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] for an item that does not exist or a slice of another length.
    fn forward(&self, items: &[u32], out: &mut [f64]) -> Result<()>;

    /// Number of products, at least 1.
    fn n_products(&self) -> usize {
        1
    }

    /// Writes the products `q_0 = g, q_1, ...` of a gradient `g` with respect to an item's vector,
    /// shape `(n_products, dim)`.
    ///
    /// # Privacy
    /// `gradient` may be a user's private vector: the method must be pure, stateless and free of
    /// panics (see the trait).
    fn products(&self, gradient: &[f64], out: &mut [f64]) {
        out.copy_from_slice(gradient);
    }

    /// Overwrites `out` with the Jacobian of one item.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] for an item that does not exist.
    fn jacobian(&self, item: u32, out: &mut Vec<JacobianEntry>) -> Result<()>;

    /// Adds the gradient with respect to the parameters, `sum_j J_j^T g_j`, to `gradient`, given
    /// `g_j` of each item, shape `(items.len(), dim)`.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    fn vjp(&self, items: &[u32], gradients: &[f64], gradient: &mut SparseRows) -> Result<()> {
        let dim = self.dim();
        dp_core::params::same_size("gradients", gradients.len(), items.len() * dim)?;
        let mut products = vec![0.0; self.n_products() * dim];
        let mut entries = Vec::new();
        for (&item, g) in items.iter().zip(gradients.chunks_exact(dim)) {
            self.jacobian(item, &mut entries)?;
            self.products(g, &mut products);
            for entry in &entries {
                let product = &products[entry.product as usize * dim..][..dim];
                gradient.add(entry.row, entry.scale, product);
            }
        }
        Ok(())
    }
}

/// One part of an item's Jacobian: `scale` times a product is added to a row of the parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JacobianEntry {
    /// Row of parameters.
    pub row: u32,
    /// Factor.
    pub scale: f64,
    /// Index of the product.
    pub product: u32,
}

/// `v_j = theta_j`: no features, plain matrix factorisation. An ablation that shows what features
/// are worth.
#[derive(Debug, Clone, PartialEq)]
pub struct IdEncoder {
    dim: usize,
    parameters: Vec<f64>,
}

impl IdEncoder {
    /// Initialised with parameters from `N(0, 0.1^2)`.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when `dim` is not from 1 to 256 or there is no item.
    pub fn random<R: Rng + ?Sized>(n_items: usize, dim: usize, rng: &mut R) -> Result<Self> {
        check_dim(dim)?;
        params::in_range("n_items", n_items, 1, u32::MAX as usize, "1 to 2^32 - 1")?;
        Ok(Self {
            dim,
            parameters: normals(n_items * dim, INITIAL_STDDEV, rng),
        })
    }
}

impl PublicEncoder for IdEncoder {
    fn n_items(&self) -> usize {
        self.parameters.len() / self.dim
    }

    fn dim(&self) -> usize {
        self.dim
    }

    fn parameters(&self) -> &[f64] {
        &self.parameters
    }

    fn parameters_mut(&mut self) -> &mut [f64] {
        &mut self.parameters
    }

    fn forward(&self, items: &[u32], out: &mut [f64]) -> Result<()> {
        check_forward(items, self.n_items(), self.dim, out)?;
        for (&item, v) in items.iter().zip(out.chunks_exact_mut(self.dim)) {
            v.copy_from_slice(&self.parameters[item as usize * self.dim..][..self.dim]);
        }
        Ok(())
    }

    fn jacobian(&self, item: u32, out: &mut Vec<JacobianEntry>) -> Result<()> {
        check_items(&[item], self.n_items())?;
        out.clear();
        out.push(JacobianEntry {
            row: item,
            scale: 1.0,
            product: 0,
        });
        Ok(())
    }
}

/// Standard deviation of initial embeddings.
const INITIAL_STDDEV: f64 = 0.1;

/// `n` normally distributed numbers.
fn normals<R: Rng + ?Sized>(n: usize, stddev: f64, rng: &mut R) -> Vec<f64> {
    let draw = |_| {
        let normal: f64 = StandardNormal.sample(rng);
        stddev * normal
    };
    (0..n).map(draw).collect()
}

/// `v_j = theta^T x_j`, `theta` of shape `(p, d)`.
///
/// # Examples
/// ```
/// use dp_pubfeat::{ItemFeaturesBuilder, LinearEncoder, PublicEncoder};
/// let mut builder = ItemFeaturesBuilder::new(1, &[2])?;
/// builder.push(0, 1, 3.0)?;
/// let mut encoder = LinearEncoder::zeros(builder.build().into(), 2)?;
/// encoder.parameters_mut().copy_from_slice(&[1.0, 1.0, 0.5, -1.0]);
/// let mut v = [0.0; 2];
/// encoder.forward(&[0], &mut v)?;
/// assert_eq!(v, [1.5, -3.0]);
/// # Ok::<(), dp_pubfeat::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct LinearEncoder {
    features: Arc<ItemFeatures>,
    dim: usize,
    parameters: Vec<f64>,
}

impl LinearEncoder {
    /// Initialised with all parameters 0.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when `dim` is not from 1 to 256.
    pub fn zeros(features: Arc<ItemFeatures>, dim: usize) -> Result<Self> {
        check_dim(dim)?;
        let parameters = vec![0.0; features.n_features() * dim];
        Ok(Self {
            features,
            dim,
            parameters,
        })
    }

    /// Initialised with parameters from `N(0, 0.1^2)`.
    ///
    /// # Errors
    /// As [`zeros`](Self::zeros).
    pub fn random<R: Rng + ?Sized>(
        features: Arc<ItemFeatures>,
        dim: usize,
        rng: &mut R,
    ) -> Result<Self> {
        let mut encoder = Self::zeros(features, dim)?;
        encoder.parameters = normals(encoder.parameters.len(), INITIAL_STDDEV, rng);
        Ok(encoder)
    }
}

impl PublicEncoder for LinearEncoder {
    fn n_items(&self) -> usize {
        self.features.n_items()
    }

    fn dim(&self) -> usize {
        self.dim
    }

    fn parameters(&self) -> &[f64] {
        &self.parameters
    }

    fn parameters_mut(&mut self) -> &mut [f64] {
        &mut self.parameters
    }

    fn forward(&self, items: &[u32], out: &mut [f64]) -> Result<()> {
        check_forward(items, self.n_items(), self.dim, out)?;
        for (&item, v) in items.iter().zip(out.chunks_exact_mut(self.dim)) {
            v.fill(0.0);
            for (feature, x) in self.features.item(item as usize) {
                let row = &self.parameters[feature as usize * self.dim..][..self.dim];
                v.iter_mut().zip(row).for_each(|(v, t)| *v += x * t);
            }
        }
        Ok(())
    }

    fn jacobian(&self, item: u32, out: &mut Vec<JacobianEntry>) -> Result<()> {
        check_items(&[item], self.n_items())?;
        out.clear();
        let active = self.features.item(item as usize);
        out.extend(active.map(|(row, scale)| JacobianEntry {
            row,
            scale,
            product: 0,
        }));
        Ok(())
    }
}

fn check_dim(dim: usize) -> Result<()> {
    params::in_range("dim", dim, 1, 256, "a whole number from 1 to 256")?;
    Ok(())
}

/// Checks the arguments of a forward pass.
fn check_forward(items: &[u32], n_items: usize, dim: usize, out: &[f64]) -> Result<()> {
    check_items(items, n_items)?;
    Ok(params::same_size("vectors", out.len(), items.len() * dim)?)
}

/// The two-layer encoder of the paper's experiments.
///
/// ```text
/// h_jc = sum_f x_jf e_f / sum_f x_jf     over the active features f of item j in category c; 0 without any
/// v_j  = sum_c W_c h_jc + a              e_f, h_jc, a of length d, W_c of shape (d, d)
/// ```
///
/// Source: Krichene et al. 2024, appendix E.1.2; the constant `a` is our addition and gives items
/// without features a vector.
///
/// Rows of parameters: the embeddings `e_f`, `f = 0..p`; then `d` rows per category, of which row
/// `a` is column `a` of `W_c`; then the constant `a`.
///
/// # Examples
/// ```
/// use dp_pubfeat::{ItemFeaturesBuilder, PublicEncoder, TwoLayerEncoder};
/// use rand::SeedableRng;
/// let mut builder = ItemFeaturesBuilder::new(2, &[3, 4])?; // 3 genres, 4 people
/// builder.push(0, 2, 1.0)?;
/// builder.push(0, 5, 1.0)?;
/// let rng = &mut rand_chacha::ChaCha20Rng::seed_from_u64(1);
/// let encoder = TwoLayerEncoder::random(builder.build().into(), 8, rng)?;
/// assert_eq!(encoder.parameters().len(), (3 + 4 + 2 * 8 + 1) * 8);
/// # Ok::<(), dp_pubfeat::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct TwoLayerEncoder {
    features: Arc<ItemFeatures>,
    dim: usize,
    parameters: Vec<f64>,
}

impl TwoLayerEncoder {
    /// Initialised with embeddings from `N(0, 0.1^2)`, dense weights from
    /// `N(0, 1 / (d * categories))` and constant 0.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when `dim` is not from 1 to 256; [`crate::Error::Unsupported`] for more rows than 32 bits can number.
    pub fn random<R: Rng + ?Sized>(
        features: Arc<ItemFeatures>,
        dim: usize,
        rng: &mut R,
    ) -> Result<Self> {
        check_dim(dim)?;
        let n_dense = features.n_categories() * dim;
        if features.n_features() + n_dense >= u32::MAX as usize {
            return Err(crate::Error::Unsupported {
                what: "more than 2^32 rows of parameters",
            });
        }
        let mut parameters = normals(features.n_features() * dim, INITIAL_STDDEV, rng);
        let dense = (n_dense as f64).recip().sqrt();
        parameters.extend(normals(n_dense * dim, dense, rng));
        parameters.resize(parameters.len() + dim, 0.0);
        Ok(Self {
            features,
            dim,
            parameters,
        })
    }

    fn row(&self, row: usize) -> &[f64] {
        &self.parameters[row * self.dim..][..self.dim]
    }

    /// First row of the dense weights of a category.
    fn dense(&self, category: usize) -> usize {
        self.features.n_features() + category * self.dim
    }

    /// Computes `h_jc` and returns the sum of weights, 0 if there are none.
    fn bag(&self, item: usize, category: usize, bag: &mut [f64]) -> f64 {
        bag.fill(0.0);
        let active = || self.features.item_category(item, category);
        let total: f64 = active().map(|(_, x)| x).sum();
        for (feature, x) in active() {
            let embedding = self.row(feature as usize);
            bag.iter_mut()
                .zip(embedding)
                .for_each(|(h, e)| *h += x / total * e);
        }
        total
    }
}

impl PublicEncoder for TwoLayerEncoder {
    fn n_items(&self) -> usize {
        self.features.n_items()
    }

    fn dim(&self) -> usize {
        self.dim
    }

    fn parameters(&self) -> &[f64] {
        &self.parameters
    }

    fn parameters_mut(&mut self) -> &mut [f64] {
        &mut self.parameters
    }

    fn forward(&self, items: &[u32], out: &mut [f64]) -> Result<()> {
        check_forward(items, self.n_items(), self.dim, out)?;
        let constant = self.dense(self.features.n_categories());
        let mut bag = vec![0.0; self.dim];
        for (&item, v) in items.iter().zip(out.chunks_exact_mut(self.dim)) {
            v.copy_from_slice(self.row(constant));
            for category in 0..self.features.n_categories() {
                if self.bag(item as usize, category, &mut bag) > 0.0 {
                    for (a, h) in bag.iter().enumerate() {
                        let column = self.row(self.dense(category) + a);
                        v.iter_mut().zip(column).for_each(|(v, w)| *v += h * w);
                    }
                }
            }
        }
        Ok(())
    }

    fn n_products(&self) -> usize {
        1 + self.features.n_categories()
    }

    fn products(&self, gradient: &[f64], out: &mut [f64]) {
        let (own, of_categories) = out.split_at_mut(self.dim);
        own.copy_from_slice(gradient);
        for (category, product) in of_categories.chunks_exact_mut(self.dim).enumerate() {
            for (a, q) in product.iter_mut().enumerate() {
                let column = self.row(self.dense(category) + a);
                *q = column.iter().zip(gradient).map(|(w, g)| w * g).sum();
            }
        }
    }

    fn jacobian(&self, item: u32, out: &mut Vec<JacobianEntry>) -> Result<()> {
        check_items(&[item], self.n_items())?;
        out.clear();
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX); // checked in the constructor
        let mut push = |row, scale, product| {
            out.push(JacobianEntry {
                row,
                scale,
                product,
            });
        };
        let mut bag = vec![0.0; self.dim];
        for category in 0..self.features.n_categories() {
            let total = self.bag(item as usize, category, &mut bag);
            if total > 0.0 {
                for (feature, x) in self.features.item_category(item as usize, category) {
                    push(feature, x / total, number(1 + category));
                }
                for (a, &h) in bag.iter().enumerate() {
                    push(number(self.dense(category) + a), h, 0);
                }
            }
        }
        push(number(self.dense(self.features.n_categories())), 1.0, 0);
        Ok(())
    }
}

/// Positions of rows by their numbers. Row numbers are public, so hash collisions need no
/// protection and one multiplication suffices as a hash.
#[derive(Debug, Clone, Copy, Default)]
struct RowHasher(u64);

impl Hasher for RowHasher {
    fn finish(&self) -> u64 {
        // the low bits of a product depend on the low bits of the row only, and hash tables use low
        // bits
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(byte.into()));
    }

    fn write_u32(&mut self, row: u32) {
        // 2^64 divided by the golden ratio
        self.0 = (self.0 ^ u64::from(row)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// Selected rows of a matrix with their values; all other rows are exactly 0 and take no memory.
///
/// # Examples
/// ```
/// use dp_pubfeat::SparseRows;
/// let mut rows = SparseRows::new(2);
/// rows.add(7_000_000, 2.0, &[1.0, 0.5]);
/// rows.add(7_000_000, 1.0, &[0.0, 1.0]);
/// assert_eq!(rows.iter().collect::<Vec<_>>(), [(7_000_000, &[2.0, 2.0][..])]);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct SparseRows {
    width: usize,
    slots: HashMap<u32, usize, BuildHasherDefault<RowHasher>>,
    rows: Vec<u32>,
    values: Vec<f64>,
}

impl SparseRows {
    /// An empty set of rows of the given width.
    #[must_use]
    pub fn new(width: usize) -> Self {
        Self {
            width,
            slots: HashMap::default(),
            rows: Vec::new(),
            values: Vec::new(),
        }
    }

    /// Removes all rows.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.rows.clear();
        self.values.clear();
    }

    /// Number of stored rows.
    #[must_use]
    pub const fn n_rows(&self) -> usize {
        self.rows.len()
    }

    /// Adds `scale * values` to a row.
    pub fn add(&mut self, row: u32, scale: f64, values: &[f64]) {
        let own = self.row_mut(row);
        own.iter_mut()
            .zip(values)
            .for_each(|(o, v)| *o += scale * v);
    }

    /// Adds `value` at one position of a row; positions beyond the width are ignored.
    pub fn add_one(&mut self, row: u32, place: usize, value: f64) {
        if let Some(own) = self.row_mut(row).get_mut(place) {
            *own += value;
        }
    }

    fn row_mut(&mut self, row: u32) -> &mut [f64] {
        let slot = *self.slots.entry(row).or_insert(self.rows.len());
        if slot == self.rows.len() {
            self.rows.push(row);
            self.values.resize(self.values.len() + self.width, 0.0);
        }
        &mut self.values[slot * self.width..][..self.width]
    }

    /// The stored rows, in insertion order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u32, &[f64])> + '_ {
        let values = self.values.chunks_exact(self.width.max(1));
        self.rows.iter().copied().zip(values)
    }
}

/// How a gradient moves parameters. All variants are post-processing and cost no privacy.
///
/// Each row has its own optimiser state, created at its first gradient and updated only by its own
/// gradients: a row without a gradient in a step stays exactly unchanged, momentum included. Bias
/// corrections count the row's own steps.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(
    rename_all = "kebab-case",
    rename_all_fields = "snake_case",
    tag = "kind",
    deny_unknown_fields
)]
pub enum Optimiser {
    /// `theta <- theta - rate g`.
    Sgd {
        /// Step size, above 0.
        rate: f64,
    },
    /// `b <- decay b + g`, `theta <- theta - rate b`.
    Momentum {
        /// Step size, above 0.
        rate: f64,
        /// From 0 to below 1.
        decay: f64,
    },
    /// Kingma and Ba 2015 with their constants .9, .999 and 1e-8.
    Adam {
        /// Step size, above 0.
        rate: f64,
    },
    /// Duchi et al. 2011: `s <- s + g^2`, `theta <- theta - rate g / (sqrt s + 1e-10)`.
    Adagrad {
        /// Step size, above 0.
        rate: f64,
    },
}

const FIRST_DECAY: f64 = 0.9;
const SECOND_DECAY: f64 = 0.999;

impl Optimiser {
    /// Checks every range.
    ///
    /// # Errors
    /// [`crate::Error::Param`] naming the setting.
    pub fn check(self) -> Result<Self> {
        let (Self::Sgd { rate }
        | Self::Momentum { rate, .. }
        | Self::Adam { rate }
        | Self::Adagrad { rate }) = self;
        params::finite_positive("rate", rate)?;
        if let Self::Momentum { decay, .. } = self {
            params::closed_unit("decay", decay)?;
            params::finite_positive("1 - decay", 1.0 - decay)?;
        }
        Ok(self)
    }

    const fn n_states(self) -> usize {
        match self {
            Self::Sgd { .. } => 0,
            Self::Momentum { .. } | Self::Adagrad { .. } => 1,
            Self::Adam { .. } => 2,
        }
    }
}

/// State of an optimiser: it takes memory only for rows that have had a gradient, whatever the
/// number of rows.
///
/// # Examples
/// ```
/// use dp_pubfeat::{Optimiser, OptimiserState, SparseRows};
/// let mut state = OptimiserState::new(Optimiser::Sgd { rate: 0.5 }, 2)?;
/// let mut gradient = SparseRows::new(2);
/// gradient.add(1, 1.0, &[2.0, 4.0]);
/// let mut parameters = [1.0; 6];
/// state.step(&gradient, &mut parameters);
/// assert_eq!(parameters, [1.0, 1.0, 0.0, -1.0, 1.0, 1.0]);
/// # Ok::<(), dp_pubfeat::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct OptimiserState {
    optimiser: Optimiser,
    width: usize,
    slots: HashMap<u32, usize>,
    /// Per slot: number of steps of the row.
    steps: Vec<u64>,
    /// Per slot: the state, with the row's width.
    states: Vec<f64>,
}

impl OptimiserState {
    /// An empty state for rows of this width.
    ///
    /// # Errors
    /// As [`Optimiser::check`].
    pub fn new(optimiser: Optimiser, width: usize) -> Result<Self> {
        Ok(Self {
            optimiser: optimiser.check()?,
            width,
            slots: HashMap::new(),
            steps: Vec::new(),
            states: Vec::new(),
        })
    }

    /// Moves the rows that the gradient contains. Rows beyond the parameters are ignored.
    pub fn step(&mut self, gradient: &SparseRows, parameters: &mut [f64]) {
        self.step_rows(gradient.iter(), parameters);
    }

    /// Moves all rows, given a gradient for each.
    pub(crate) fn step_all(&mut self, gradient: &[f64], parameters: &mut [f64]) {
        self.step_rows((0..).zip(gradient.chunks_exact(self.width)), parameters);
    }

    fn step_rows<'g>(
        &mut self,
        rows: impl Iterator<Item = (u32, &'g [f64])>,
        parameters: &mut [f64],
    ) {
        let width = self.width;
        for (row, gradient) in rows {
            let first = row as usize * width;
            if let Some(own) = parameters.get_mut(first..first + width) {
                self.step_row(row, gradient, own);
            }
        }
    }

    fn step_row(&mut self, row: u32, gradient: &[f64], parameters: &mut [f64]) {
        let n = self.optimiser.n_states() * self.width;
        let slot = match n {
            0 => 0,
            _ => *self.slots.entry(row).or_insert(self.steps.len()),
        };
        if n > 0 && slot == self.steps.len() {
            self.steps.push(0);
            self.states.resize(self.states.len() + n, 0.0);
        }
        let states = &mut self.states[slot * n..][..n];
        let each = parameters.iter_mut().zip(gradient);
        match self.optimiser {
            Optimiser::Sgd { rate } => each.for_each(|(t, g)| *t -= rate * g),
            Optimiser::Momentum { rate, decay } => {
                for ((t, g), b) in each.zip(states) {
                    *b = decay * *b + g;
                    *t -= rate * *b;
                }
            }
            Optimiser::Adagrad { rate } => {
                for ((t, g), s) in each.zip(states) {
                    *s += g * g;
                    *t -= rate * g / (s.sqrt() + 1e-10);
                }
            }
            Optimiser::Adam { rate } => {
                self.steps[slot] += 1;
                let n_steps = self.steps[slot] as f64;
                let of_first = 1.0 - FIRST_DECAY.powf(n_steps);
                let of_second = 1.0 - SECOND_DECAY.powf(n_steps);
                let (first, second) = states.split_at_mut(self.width);
                for ((t, g), (m, s)) in each.zip(first.iter_mut().zip(second)) {
                    *m = FIRST_DECAY * *m + (1.0 - FIRST_DECAY) * g;
                    *s = SECOND_DECAY * *s + (1.0 - SECOND_DECAY) * g * g;
                    *t -= rate * (*m / of_first) / ((*s / of_second).sqrt() + 1e-8);
                }
            }
        }
    }

    /// Number of rows with a state.
    #[cfg(test)]
    fn n_remembered(&self) -> usize {
        self.steps.len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use chacha20::ChaCha20Rng;
    use chacha20::rand_core::SeedableRng;

    use super::*;
    use crate::ItemFeaturesBuilder;

    fn features(n_features: usize) -> ItemFeatures {
        let mut builder = ItemFeaturesBuilder::new(4, &[n_features / 2, n_features / 2]).unwrap();
        let last = u32::try_from(n_features - 1).unwrap();
        for (item, feature, weight) in [
            (0, 0, 1.0),
            (0, 2, 2.0),
            (0, last, 1.0),
            (1, 2, 1.0),
            (2, last, 0.5),
            (2, last - 1, 1.5),
        ] {
            builder.push(item, feature, weight).unwrap();
        }
        builder.build()
    }

    fn encoders() -> Vec<Box<dyn PublicEncoder>> {
        let rng = &mut ChaCha20Rng::seed_from_u64(3);
        vec![
            Box::new(LinearEncoder::random(features(8).into(), 3, rng).unwrap()),
            Box::new(IdEncoder::random(4, 3, rng).unwrap()),
            Box::new(TwoLayerEncoder::random(features(8).into(), 3, rng).unwrap()),
        ]
    }

    /// `sum_j <g_j, v_j>`, whose gradient is the vjp.
    fn objective(encoder: &dyn PublicEncoder, items: &[u32], g: &[f64]) -> f64 {
        let mut v = vec![0.0; g.len()];
        encoder.forward(items, &mut v).unwrap();
        v.iter().zip(g).map(|(v, g)| v * g).sum()
    }

    #[test]
    fn gradients_are_those_of_differences() {
        for mut encoder in encoders() {
            let (items, dim) = ([0, 1, 2, 0, 3], encoder.dim());
            let g: Vec<f64> = (0..15).map(|k| f64::from(k * 7 % 5) - 1.7).collect();
            let mut gradient = SparseRows::new(dim);
            encoder.vjp(&items, &g, &mut gradient).unwrap();
            let mut dense = vec![0.0; encoder.parameters().len()];
            for (row, values) in gradient.iter() {
                dense[row as usize * dim..][..dim].copy_from_slice(values);
            }
            for (at, dense) in dense.iter().enumerate() {
                let keep = encoder.parameters()[at];
                let mut side = |step: f64| {
                    encoder.parameters_mut()[at] = keep + step;
                    objective(&*encoder, &items, &g)
                };
                // at most bilinear in one parameter: central differences are exact except for
                // rounding
                let slope = (side(1e-3) - side(-1e-3)) / 2e-3;
                encoder.parameters_mut()[at] = keep;
                assert!((slope - dense).abs() < 1e-9, "{at}: {slope} {}", dense);
            }
        }
    }

    #[test]
    fn two_layer_values_are_those_of_numpy() {
        // numpy: E = arange(8*2).reshape(8,2)/10; W_c column a as rows below; item 0 has weights 1, 2 in category 0 and 1 in category 1
        let rng = &mut ChaCha20Rng::seed_from_u64(1);
        let mut encoder = TwoLayerEncoder::random(features(8).into(), 2, rng).unwrap();
        let dense = [1.0, -1.0, 0.5, 2.0, 0.25, 0.0, -2.0, 1.0];
        let parameters = (0..16).map(|k| f64::from(k) / 10.0);
        let all: Vec<f64> = parameters.chain(dense).chain([0.1, 0.2]).collect();
        encoder.parameters_mut().copy_from_slice(&all);
        let mut v = [0.0; 6];
        encoder.forward(&[0, 1, 3], &mut v).unwrap();
        let expected = [-2.1, 2.166_666_666_666_666_5, 0.75, 0.8, 0.1, 0.2];
        for (v, e) in v.iter().zip(expected) {
            assert!((v - e).abs() < 1e-12, "{v} {e}");
        }
    }

    #[test]
    fn rows_of_inactive_features_stay_bitwise_what_they_were() {
        let optimisers = [
            Optimiser::Sgd { rate: 0.1 },
            Optimiser::Momentum {
                rate: 0.1,
                decay: 0.9,
            },
            Optimiser::Adam { rate: 0.1 },
            Optimiser::Adagrad { rate: 0.1 },
        ];
        for optimiser in optimisers {
            let rng = &mut ChaCha20Rng::seed_from_u64(4);
            let mut encoder = TwoLayerEncoder::random(features(8).into(), 2, rng).unwrap();
            let mut state = OptimiserState::new(optimiser, 2).unwrap();
            let mut gradient = SparseRows::new(2);
            // first item 0 moves rows 0, 2, 7; then item 1 alone, which has feature 2 of category 0
            for (items, moved) in [([0_u32], &[0, 2, 7][..]), ([1], &[2])] {
                let before = encoder.parameters().to_vec();
                for _ in 0..3 {
                    gradient.clear();
                    encoder.vjp(&items, &[0.3, -0.2], &mut gradient).unwrap();
                    state.step(&gradient, encoder.parameters_mut());
                }
                for row in 0..8 {
                    let same = before[2 * row..2 * row + 2]
                        .iter()
                        .zip(&encoder.parameters()[2 * row..])
                        .all(|(a, b)| a.to_bits() == b.to_bits());
                    assert_eq!(same, !moved.contains(&row), "row {row}, {optimiser:?}");
                }
            }
        }
    }

    #[test]
    fn work_and_memory_follow_the_active_features_alone() {
        // the same items touch as many rows among 8 features as among 2,000,000
        let mut touched = Vec::new();
        for p in [8, 2_000_000] {
            let mut encoder = LinearEncoder::zeros(features(p).into(), 2).unwrap();
            let mut state = OptimiserState::new(Optimiser::Adam { rate: 0.1 }, 2).unwrap();
            let mut gradient = SparseRows::new(2);
            let g = [1.0; 8];
            encoder.vjp(&[0, 1, 2, 3], &g, &mut gradient).unwrap();
            state.step(&gradient, encoder.parameters_mut());
            touched.push((gradient.n_rows(), state.n_remembered()));
        }
        assert_eq!(touched, [(4, 4), (4, 4)]);
    }

    #[test]
    fn optimisers_make_the_steps_of_numpy() {
        // g = 1, then -2, starting at 0 with rate .1; numpy, double precision
        let expected = [
            (Optimiser::Sgd { rate: 0.1 }, 0.1),
            (
                Optimiser::Momentum {
                    rate: 0.1,
                    decay: 0.5,
                },
                0.05,
            ),
            (Optimiser::Adagrad { rate: 0.1 }, -0.010_557_280_900_008_41),
            (Optimiser::Adam { rate: 0.1 }, -0.063_389_646_527_925_23),
        ];
        for (optimiser, value) in expected {
            let mut state = OptimiserState::new(optimiser, 1).unwrap();
            let mut parameter = [0.0];
            for g in [1.0, -2.0] {
                let mut gradient = SparseRows::new(1);
                gradient.add(0, 1.0, &[g]);
                state.step(&gradient, &mut parameter);
            }
            assert!(
                (parameter[0] - value).abs() < 1e-9,
                "{optimiser:?} {}",
                parameter[0]
            );
        }
    }

    #[test]
    fn bad_settings_and_items_are_refused() {
        for rate in [0.0, -1.0, f64::NAN] {
            assert!(Optimiser::Adam { rate }.check().is_err());
        }
        assert!(
            Optimiser::Momentum {
                rate: 1.0,
                decay: 1.0
            }
            .check()
            .is_err()
        );
        for encoder in encoders() {
            assert!(encoder.forward(&[4], &mut [0.0; 3]).is_err());
            assert!(encoder.forward(&[0], &mut [0.0; 2]).is_err());
            assert!(encoder.jacobian(4, &mut Vec::new()).is_err());
            let mut gradient = SparseRows::new(3);
            assert!(encoder.vjp(&[0], &[0.0; 4], &mut gradient).is_err());
        }
        assert!(LinearEncoder::zeros(features(8).into(), 0).is_err());
    }

    #[test]
    fn rows_at_powers_of_two_go_to_places_of_their_own() {
        for step in [1, 1 << 6, 1 << 12, 1 << 16] {
            let place = |row: u32| {
                let mut hasher = RowHasher::default();
                hasher.write_u32(row * step);
                hasher.finish() % (1 << 15)
            };
            let places: HashSet<u64> = (0..1 << 14).map(place).collect();
            // 16,384 rows in 32,768 slots: a random hash gives 12,900 distinct ones
            assert!(places.len() > 11_000, "step {step}: {}", places.len());
        }
    }
}
