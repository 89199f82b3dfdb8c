//! Encoders of items' public features, and how their parameters move.

mod id_only;
mod initial;
mod linear;
mod optimiser;
mod rows;
mod two_layer;

pub use id_only::IdEncoder;
pub use linear::LinearEncoder;
pub use optimiser::{Optimiser, OptimiserState};
pub use rows::SparseRows;
pub use two_layer::TwoLayerEncoder;

use crate::Result;

/// `v_j = v(theta, x_j)`: vectors of items from public features, and derivatives for `theta`.
///
/// Parameters are rows of width `dim`. The Jacobian of an item is given in parts, so that many gradients at one item cost one pass over its
/// features: with `q_0 = g, q_1, ..., q_k` the [`products`](Self::products) of a gradient `g` in `v`, and the item's
/// [`jacobian`](Self::jacobian), a list of `(row, scale, product)`, the gradient in `theta` is
///
/// ```text
/// row r:  sum of scale * q_product  over the item's entries for r
/// ```
///
/// Rows that are in no entry have gradient 0 and are not even looked at.
///
/// # Privacy
/// Public: features and parameters only. What is trained on released statistics is post-processing, and so is everything that an encoder is asked for by
/// learners.
///
/// In [`DpSgd`](crate::DpSgd) all but one method are called for all items alike, before any user is looked at. **The exception is
/// [`products`](Self::products), which is given users' private vectors.** The guarantee rests on what an implementation must keep to:
///
/// * all methods but `parameters_mut` are pure functions of public features, parameters and arguments: nothing is kept from one call to the next (no caches, counters, random
///   numbers), written anywhere, or sent;
/// * sizes (`n_items`, `dim`, `n_products`, the number of parameters) never change;
/// * `products` does not panic, whatever its numbers, and takes no time that depends on them.
pub trait PublicEncoder: Sync {
    /// Number of items `m`.
    fn n_items(&self) -> usize;

    /// Length `d` of an item's vector and of a row of parameters.
    fn dim(&self) -> usize;

    /// Parameters, shape `(n_rows, dim)`, row-major.
    fn parameters(&self) -> &[f64];

    /// The parameters, to be moved.
    fn parameters_mut(&mut self) -> &mut [f64];

    /// Writes the vectors of `items`, shape `(items.len(), dim)`.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] for an item that does not exist or a slice of another length.
    fn forward(&self, items: &[u32], out: &mut [f64]) -> Result<()>;

    /// How many products there are, at least 1.
    fn n_products(&self) -> usize {
        1
    }

    /// Writes `q_0 = g, q_1, ...` of the gradient `g` in an item's vector, shape `(n_products, dim)`.
    ///
    /// # Privacy
    /// `gradient` may be a user's private vector: pure, stateless, without panics (see the trait).
    fn products(&self, gradient: &[f64], out: &mut [f64]) {
        out.copy_from_slice(gradient);
    }

    /// Overwrites `out` by the Jacobian of one item.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] for an item that does not exist.
    fn jacobian(&self, item: u32, out: &mut Vec<JacobianEntry>) -> Result<()>;

    /// Adds the gradient in the parameters, `sum_j J_j^T g_j`, to `gradient`, given `g_j` of each item, shape `(items.len(), dim)`.
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

/// One part of an item's Jacobian: `scale` times a product goes to a row of parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JacobianEntry {
    /// Row of parameters.
    pub row: u32,
    /// Factor.
    pub scale: f64,
    /// Which product.
    pub product: u32,
}

#[cfg(test)]
mod tests;
