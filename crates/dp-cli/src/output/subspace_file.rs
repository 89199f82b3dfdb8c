//! The shared subspace on disk: one safetensors file whose header says how users join.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use dp_personalize::{Provenance, Subspace};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};

use super::model_file::not_safetensors;
use crate::error::{Error, Result};
use crate::personal::Inputs;

pub(crate) const SUBSPACE: &str = "subspace.safetensors";

/// Name of the one tensor, shape `(dim, rank)`, f64, an orthonormal basis.
const TENSOR: &str = "basis";
const HEADER_KEY: &str = "dp_personal";
const SCHEMA_VERSION: u32 = 1;

/// What a reader needs besides the basis. All of it is public.
#[derive(Serialize, Deserialize)]
struct Header {
    schema_version: u32,
    provenance: Provenance,
    rank: usize,
    inputs: Inputs,
}

/// The part of a header that every version has.
#[derive(Deserialize)]
struct SchemaOnly {
    schema_version: u32,
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
        let header = read_header(&bytes)?;
        header.inputs.check()?;
        let (dim, rank) = (header.inputs.dim(), header.rank);
        let basis = read_basis(&bytes, dim, rank)?;
        let subspace = Subspace::spanned_by(dim, rank, &basis, header.provenance)
            .map_err(|e| e.to_string())?;
        Ok((subspace, header.inputs))
    };
    read().map_err(|reason: String| Error::model(&path, reason))
}

fn read_header(bytes: &[u8]) -> Result<Header, String> {
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(not_safetensors)?;
    let text = metadata
        .metadata()
        .as_ref()
        .and_then(|entries| entries.get(HEADER_KEY))
        .ok_or("not a model of dp personalize: the header has no dp_personal entry")?;
    let bad = |e: serde_json::Error| format!("the dp_personal entry of the header is damaged: {e}");
    let SchemaOnly {
        schema_version: found,
    } = serde_json::from_str(text).map_err(bad)?;
    if found > SCHEMA_VERSION {
        return Err(format!(
            "model schema {found} is newer than this program, which reads {SCHEMA_VERSION}; \
             use a newer dp"
        ));
    }
    serde_json::from_str(text).map_err(bad)
}

fn read_basis(bytes: &[u8], dim: usize, rank: usize) -> Result<Vec<f64>, String> {
    let tensors = SafeTensors::deserialize(bytes).map_err(not_safetensors)?;
    let tensor = tensors.tensor(TENSOR).map_err(not_safetensors)?;
    if tensor.dtype() != Dtype::F64 || tensor.shape() != [dim, rank] {
        return Err(format!(
            "expected an f64 basis of {rank} vectors of length {dim}"
        ));
    }
    let (values, _) = tensor.data().as_chunks::<8>();
    let basis: Vec<f64> = values.iter().map(|&b| f64::from_le_bytes(b)).collect();
    if basis.iter().all(|u| u.is_finite()) {
        Ok(basis)
    } else {
        Err("the basis is not all finite numbers".to_owned())
    }
}
