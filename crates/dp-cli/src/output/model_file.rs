//! The model on disk: factors as safetensors, the catalogue beside it as csv.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use dp_data::ItemCatalogue;
use dp_multitask::{FactorModel, Scoring};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};

use super::OutputFolder;
use crate::error::{Error, Result};

pub(crate) const FACTORS: &str = "item_factors.safetensors";
pub(crate) const ITEMS: &str = "items.csv";
pub(crate) const CERTIFICATE: &str = "certificate.json";

/// Name of the one tensor, shape `(n_items, dim)`, f64, rows in the order of `items.csv`.
const TENSOR: &str = "item_factors";
/// Key of the header entry that holds [`Header`] as JSON.
const HEADER_KEY: &str = "dp_personal";
const SCHEMA_VERSION: u32 = 1;

/// What a reader needs besides the factors. All of it is public.
#[derive(Serialize, Deserialize)]
struct Header {
    schema_version: u32,
    private: bool,
    scoring: Scoring,
}

/// Writes factors and catalogue into an output folder.
pub(crate) fn write_model(
    folder: &OutputFolder,
    model: &FactorModel,
    catalogue: &ItemCatalogue,
    private: bool,
) -> Result<()> {
    let header = Header {
        schema_version: SCHEMA_VERSION,
        private,
        scoring: model.scoring().clone(),
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
    folder.write(FACTORS, &file)?;
    folder.write(ITEMS, &catalogue_csv(catalogue)?)
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
    let (_, metadata) = SafeTensors::read_metadata(&bytes).map_err(|e| Error::model(&path, e))?;
    let header = metadata
        .metadata()
        .as_ref()
        .and_then(|entries| entries.get(HEADER_KEY))
        .ok_or_else(|| Error::model(&path, "no dp_personal header; not a model of dp train"))?;
    let header: Header = serde_json::from_str(header).map_err(|e| Error::model(&path, e))?;
    if header.schema_version > SCHEMA_VERSION {
        let found = header.schema_version;
        let reason = format!("schema {found} is newer than this program knows ({SCHEMA_VERSION})");
        return Err(Error::model(&path, reason));
    }
    let tensors = SafeTensors::deserialize(&bytes).map_err(|e| Error::model(&path, e))?;
    let tensor = tensors.tensor(TENSOR).map_err(|e| Error::model(&path, e))?;
    if tensor.dtype() != Dtype::F64 {
        return Err(Error::model(&path, "the factors are not f64"));
    }
    let (values, _) = tensor.data().as_chunks::<8>();
    let factors = values.iter().map(|&bytes| f64::from_le_bytes(bytes)).collect();
    let model = FactorModel::new(header.scoring, factors).map_err(|e| Error::model(&path, e))?;
    let catalogue = dp_data::read_catalogue(folder.join(ITEMS))?;
    if catalogue.len() != model.n_items() {
        let (items, rows) = (catalogue.len(), model.n_items());
        let reason = format!("{rows} rows of factors for {items} items in {ITEMS}");
        return Err(Error::model(&path, reason));
    }
    Ok((model, catalogue))
}
