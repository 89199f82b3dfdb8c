//! The shared subspace on disk: one safetensors file whose header says how users join.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use dp_personalize::{Provenance, Subspace};
use safetensors::tensor::{Dtype, TensorView};
use serde::{Deserialize, Serialize};

use super::model_file::{HEADER_KEY, read_header, read_matrix};
use crate::error::{Error, Result};
use crate::personal::Inputs;

pub(crate) const SUBSPACE: &str = "subspace.safetensors";

/// Name of the one tensor, shape `(dim, rank)`, f64, an orthonormal basis.
const TENSOR: &str = "basis";
const SCHEMA_VERSION: u32 = 1;

/// What a reader needs besides the basis. All of it is public.
#[derive(Serialize, Deserialize)]
struct Header {
    schema_version: u32,
    provenance: Provenance,
    rank: usize,
    inputs: Inputs,
}

/// The bytes of the file.
pub(crate) fn subspace_bytes(subspace: &Subspace, inputs: &Inputs) -> Result<Vec<u8>> {
    let header = Header {
        schema_version: SCHEMA_VERSION,
        provenance: subspace.provenance(),
        rank: subspace.rank(),
        inputs: inputs.clone(),
    };
    let header = HashMap::from([(HEADER_KEY.to_owned(), serde_json::to_string(&header)?)]);
    let basis = subspace.basis().iter();
    let bytes: Vec<u8> = basis.flat_map(|u| u.to_le_bytes()).collect();
    let failed = |e| Error::model(Path::new(SUBSPACE), e);
    let shape = vec![subspace.dim(), subspace.rank()];
    let view = TensorView::new(Dtype::F64, shape, &bytes).map_err(failed)?;
    safetensors::serialize([(TENSOR, view)], Some(header)).map_err(failed)
}

/// Reads it back. A newer schema is refused rather than guessed at.
pub(crate) fn read_subspace(folder: &Path) -> Result<(Subspace, Inputs)> {
    let path = folder.join(SUBSPACE);
    let bytes = fs::read(&path).map_err(|e| Error::read(&path, e))?;
    let read = || {
        let header: Header = read_header(&bytes, "dp personalize", SCHEMA_VERSION)?;
        header.inputs.check()?;
        let (dim, rank) = (header.inputs.dim(), header.rank);
        let expected = format!("an f64 basis of {rank} vectors of length {dim}");
        let basis = read_matrix(&bytes, TENSOR, |shape| shape == [dim, rank], &expected)?;
        let subspace = Subspace::spanned_by(dim, rank, &basis, header.provenance)
            .map_err(|e| e.to_string())?;
        Ok((subspace, header.inputs))
    };
    read().map_err(|reason: String| Error::model(&path, reason))
}
