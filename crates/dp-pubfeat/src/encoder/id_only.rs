//! One free vector per item.

use dp_core::params;
use rand::Rng;

use super::initial::{INITIAL_STDDEV, normals};
use super::linear::{check_dim, check_forward};
use super::{JacobianEntry, PublicEncoder};
use crate::Result;
use crate::features::check_items;

/// `v_j = theta_j`: no features, plain matrix factorisation. The ablation that tells what features are worth.
#[derive(Debug, Clone, PartialEq)]
pub struct IdEncoder {
    dim: usize,
    parameters: Vec<f64>,
}

impl IdEncoder {
    /// With parameters from `N(0, 0.1^2)`.
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
