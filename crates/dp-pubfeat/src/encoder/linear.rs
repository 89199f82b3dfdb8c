//! Linear encoders.

use std::sync::Arc;

use dp_core::params;
use rand::Rng;

use super::initial::{INITIAL_STDDEV, normals};
use super::{JacobianEntry, PublicEncoder};
use crate::features::check_items;
use crate::{ItemFeatures, Result};

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
    /// With all parameters 0.
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

    /// With parameters from `N(0, 0.1^2)`.
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

pub(super) fn check_dim(dim: usize) -> Result<()> {
    params::in_range("dim", dim, 1, 256, "a whole number from 1 to 256")?;
    Ok(())
}

/// The arguments of a forward pass.
pub(super) fn check_forward(items: &[u32], n_items: usize, dim: usize, out: &[f64]) -> Result<()> {
    check_items(items, n_items)?;
    Ok(params::same_size("vectors", out.len(), items.len() * dim)?)
}
