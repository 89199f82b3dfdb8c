//! The model on disk: factors as safetensors, the catalogue beside it as csv.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use dp_data::ItemCatalogue;
use dp_multitask::{FactorModel, Provenance, ScoreModel, Scoring};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::workflows::sha256;

pub(crate) const FACTORS: &str = "item_factors.safetensors";
pub(crate) const ITEMS: &str = "items.csv";
pub(crate) const CERTIFICATE: &str = "certificate.json";

/// What makes up a model.
pub(crate) const MODEL_FILES: [&str; 2] = [FACTORS, ITEMS];

/// Name of the one tensor, shape `(n_items, dim)`, f64, rows in the order of `items.csv`.
const TENSOR: &str = "item_factors";
/// Key of the header entry that holds [`Header`] as JSON.
pub(super) const HEADER_KEY: &str = "dp_personal";
/// Schema 2 says more about scoring: implicit feedback. Schema 3 has scores without biases. Models of ratings stay at 1.
const SCHEMA_VERSION: u32 = 3;

/// What a reader needs besides the factors. All of it is public.
#[derive(Serialize, Deserialize)]
struct Header {
    schema_version: u32,
    provenance: Provenance,
    scoring: Scoring,
}

/// The part of a header that every version has.
#[derive(Deserialize)]
pub(super) struct SchemaOnly {
    pub(super) schema_version: u32,
}

/// The files of a model: name and bytes of factors and catalogue.
pub(crate) fn model_files(
    model: &FactorModel,
    catalogue: &ItemCatalogue,
) -> Result<[(&'static str, Vec<u8>); 2]> {
    let header = Header {
        schema_version: match model.scoring() {
            of if of.score_model == ScoreModel::Plain => SCHEMA_VERSION,
            of if of.unobserved_weight.is_some() => 2,
            _ => 1,
        },
        provenance: model.provenance(),
        scoring: *model.scoring(),
    };
    let header = HashMap::from([(HEADER_KEY.to_owned(), serde_json::to_string(&header)?)]);
    let bytes: Vec<u8> = model
        .item_factors()
        .iter()
        .flat_map(|v| v.to_le_bytes())
        .collect();
    let path = Path::new(FACTORS);
    let shape = vec![model.n_items(), model.scoring().dim];
    let view = TensorView::new(Dtype::F64, shape, &bytes).map_err(|e| Error::model(path, e))?;
    let file = safetensors::serialize([(TENSOR, view)], Some(header))
        .map_err(|e| Error::model(path, e))?;
    Ok([(FACTORS, file), (ITEMS, catalogue_csv(catalogue)?)])
}

/// Stands for the ids of a catalogue and their order.
pub(crate) fn catalogue_sha256(catalogue: &ItemCatalogue) -> Result<String> {
    Ok(sha256(&serde_json::to_vec(catalogue.ids())?))
}

fn catalogue_csv(catalogue: &ItemCatalogue) -> Result<Vec<u8>> {
    let write = || {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(["item", "title"])?;
        for (index, id) in catalogue.ids().iter().enumerate() {
            writer.write_record([id, catalogue.title(index).unwrap_or("")])?;
        }
        writer.into_inner().map_err(|e| e.into_error().into())
    };
    write().map_err(|e: csv::Error| Error::model(Path::new(ITEMS), e))
}

/// Reads a model folder back. A newer schema is refused rather than guessed at.
pub(crate) fn read_model(folder: &Path) -> Result<(FactorModel, ItemCatalogue)> {
    let path = folder.join(FACTORS);
    let bytes = fs::read(&path).map_err(|e| Error::read(&path, e))?;
    let header: Header = read_header(&bytes, "dp train", SCHEMA_VERSION)
        .map_err(|reason| Error::model(&path, reason))?;
    let dim = header.scoring.dim;
    let is_shape = |shape: &[usize]| matches!(shape, &[_, d] if d == dim);
    let expected = format!("f64 factors of length {dim}");
    let factors = read_matrix(&bytes, TENSOR, is_shape, &expected)
        .map_err(|reason| Error::model(&path, reason))?;
    let model = FactorModel::new(header.scoring, factors, header.provenance)
        .map_err(|e| Error::model(&path, e))?;
    let catalogue = dp_data::read_catalogue(folder.join(ITEMS))?;
    if catalogue.len() != model.n_items() {
        let (items, rows) = (catalogue.len(), model.n_items());
        let reason = format!("{rows} rows of factors for {items} items in {ITEMS}");
        return Err(Error::model(&path, reason));
    }
    Ok((model, catalogue))
}

/// The project's entry in the header of a safetensors file, of no newer schema than `newest`; `command` wrote it.
pub(super) fn read_header<T: DeserializeOwned>(
    bytes: &[u8],
    command: &str,
    newest: u32,
) -> Result<T, String> {
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(not_safetensors)?;
    let text = metadata
        .metadata()
        .as_ref()
        .and_then(|entries| entries.get(HEADER_KEY))
        .ok_or_else(|| format!("not a model of {command}: the header has no dp_personal entry"))?;
    let bad = |e: serde_json::Error| format!("the dp_personal entry of the header is damaged: {e}");
    let SchemaOnly {
        schema_version: found,
    } = serde_json::from_str(text).map_err(bad)?;
    if found > newest {
        return Err(format!(
            "model schema {found} is newer than this program, which reads {newest}; \
             use a newer dp"
        ));
    }
    serde_json::from_str(text).map_err(bad)
}

/// The numbers of a tensor of two dimensions, all finite; `expected` says what it should be.
pub(super) fn read_matrix(
    bytes: &[u8],
    name: &str,
    is_shape: impl Fn(&[usize]) -> bool,
    expected: &str,
) -> Result<Vec<f64>, String> {
    let tensors = SafeTensors::deserialize(bytes).map_err(not_safetensors)?;
    let tensor = tensors.tensor(name).map_err(not_safetensors)?;
    if tensor.dtype() != Dtype::F64 || !is_shape(tensor.shape()) {
        return Err(format!("expected {expected}"));
    }
    let (values, _) = tensor.data().as_chunks::<8>();
    let values: Vec<f64> = values.iter().map(|&b| f64::from_le_bytes(b)).collect();
    if values.iter().all(|v| v.is_finite()) {
        Ok(values)
    } else {
        Err("its numbers are not all finite".to_owned())
    }
}

pub(super) fn not_safetensors(error: safetensors::SafeTensorError) -> String {
    format!("not a whole safetensors file: {error}")
}
