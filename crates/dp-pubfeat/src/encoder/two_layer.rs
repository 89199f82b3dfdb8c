//! Embedding bags per category, concatenated, and a dense layer.

use std::sync::Arc;

use rand::Rng;

use super::initial::{INITIAL_STDDEV, normals};
use super::linear::{check_dim, check_forward};
use super::{JacobianEntry, PublicEncoder};
use crate::features::check_items;
use crate::{ItemFeatures, Result};

/// The two-layer encoder of the paper's experiments.
///
/// ```text
/// h_jc = sum_f x_jf e_f / sum_f x_jf     over the active features f of item j in category c; 0 without any
/// v_j  = sum_c W_c h_jc + a              e_f, h_jc, a of length d, W_c of shape (d, d)
/// ```
///
/// Source: Krichene et al. 2024, appendix E.1.2; the constant `a` is ours, and gives items without features a vector.
///
/// Rows of parameters: the embeddings `e_f`, `f = 0..p`; then per category `d` rows, row `a` of them column `a` of `W_c`; then `a`.
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
    /// Embeddings from `N(0, 0.1^2)`, dense weights from `N(0, 1 / (d * categories))`, constant 0.
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

    /// `h_jc`; the sum of weights, 0 without any.
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
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX); // checked when made
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
