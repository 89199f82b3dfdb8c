//! Forward and backward passes of items, made before any unit is looked at.

use dp_core::ShapeError;
use rayon::prelude::*;

use crate::Result;
use crate::encoder::{JacobianEntry, PublicEncoder};

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
        let jacobians = items.par_iter().map(|&item| {
            let mut entries = Vec::new();
            encoder.jacobian(item, &mut entries)?;
            check_entries(&entries, sizes)?;
            Ok(entries)
        });
        Ok(Self {
            dim,
            jacobians: jacobians.collect::<Result<_>>()?,
            vectors,
        })
    }

    /// Numbers in all vectors, `m d`.
    pub(super) const fn n_numbers(&self) -> usize {
        self.vectors.len()
    }

    /// None for an item that the encoder does not have; tables of a fit have no such item.
    pub(super) fn of(&self, item: u32) -> Option<(&[f64], &[JacobianEntry])> {
        let jacobian = self.jacobians.get(item as usize)?;
        Some((
            &self.vectors[item as usize * self.dim..][..self.dim],
            jacobian,
        ))
    }
}

/// Entries must be for parameters and products that are there.
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
            return Err(ShapeError {
                name,
                found,
                expected,
            }
            .into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use dp_core::InteractionsBuilder;
    use dp_mechanism::{Grid, vector_contribution};

    use super::super::EncoderGradients;
    use super::*;
    use crate::{ItemFeaturesBuilder, LinearEncoder, ProblemSetup};

    /// A linear encoder that counts what it is asked for, and may give a wrong entry.
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
