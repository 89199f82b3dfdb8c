//! Items that a model does not have, by their features.

use std::path::Path;

use dp_accounting::Certificate;
use dp_data::ItemCatalogue;
use dp_multitask::FactorModel;

use super::items::read_columns;
use super::weights_file::{Encoder, FEATURE_WEIGHTS};
use crate::error::{Error, Result};
use crate::output::{self, CERTIFICATE};
use crate::workflows::verify::compare_files;

/// The model with the items of a table that it does not have yet: each gets the vector that its names stand for. Names that the model does not know count for nothing; items it has stay as they are.
///
/// The weights are those of the certificate, or none: files beside it that it does not hold the hashes of are refused.
pub(crate) fn with_new_items(
    folder: &Path,
    (model, catalogue): (FactorModel, ItemCatalogue),
    items: &Path,
) -> Result<(FactorModel, ItemCatalogue)> {
    let path = folder.join(FEATURE_WEIGHTS);
    if !path.exists() {
        let text = "`items` needs a model trained with `method` am-ssp";
        return Err(Error::Usage(text.to_owned()));
    }
    compare_files(folder, &certificate_of(folder)?)?;
    let encoder = Encoder::read(&path)?;
    if encoder.weights.dim() != model.dim() {
        return Err(Error::model(
            &path,
            "its weights are not those of the model",
        ));
    }
    let columns: Vec<&str> = encoder.columns.iter().map(String::as_str).collect();
    let table = read_columns(items, &columns)?;
    let more = dp_data::read_catalogue(items)?;
    let all = [&catalogue, &more].into_iter().flat_map(|list| {
        let ids = list.ids().iter().cloned();
        ids.zip(list.titles().iter().cloned())
    });
    let all = ItemCatalogue::from_titled(all);
    let mut rows = Vec::with_capacity(all.len() * model.dim());
    for id in all.ids() {
        match catalogue.index(id) {
            Some(item) => rows.extend(&model.item_factors()[item * model.dim()..][..model.dim()]),
            None => {
                let features = encoder.vocabulary.features(&table, id);
                rows.extend(encoder.weights.vector(&features)?);
            }
        }
    }
    let extended = FactorModel::new(*model.scoring(), rows, model.provenance())?;
    Ok((extended, all))
}

/// A certificate that holds, private or not.
fn certificate_of(folder: &Path) -> Result<Certificate> {
    let path = folder.join(CERTIFICATE);
    let certificate = output::read_certificate(&path)?;
    match certificate.verify() {
        Ok(_) => Ok(certificate),
        Err(source) => Err(Error::Certificate { path, source }),
    }
}
