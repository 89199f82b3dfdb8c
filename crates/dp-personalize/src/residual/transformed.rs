//! Subspaces of whitened features as subspaces of features as they are.

use crate::{Result, Subspace};

/// The subspace of coefficients for features as they are.
pub(super) fn of_features_as_they_are(
    whitened: &Subspace,
    transform: Option<&[f64]>,
) -> Result<Subspace> {
    let basis = unwhitened(whitened, transform);
    let (dim, rank) = (whitened.dim(), whitened.rank());
    Subspace::spanned_by(dim, rank, &basis, whitened.provenance())
}

/// `W^T U`: coefficients for features as they are.
pub(super) fn unwhitened(subspace: &Subspace, transform: Option<&[f64]>) -> Vec<f64> {
    let Some(transform) = transform else {
        return subspace.basis().to_vec();
    };
    let rank = subspace.rank();
    let mut basis = vec![0.0; subspace.basis().len()];
    let rows = transform.chunks_exact(subspace.dim());
    for (row, u) in rows.zip(subspace.basis().chunks_exact(rank)) {
        for (out, w) in basis.chunks_exact_mut(rank).zip(row) {
            out.iter_mut().zip(u).for_each(|(o, u)| *o += w * u);
        }
    }
    basis
}
