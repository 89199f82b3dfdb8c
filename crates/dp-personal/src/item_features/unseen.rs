//! Items that are not in a model, by their features.

use std::path::Path;

use dp_accounting::Certificate;
use dp_data::ItemCatalogue;
use dp_multitask::FactorModel;

use super::items::read_columns;
use super::weights_file::{Encoder, FEATURE_WEIGHTS};
use crate::error::{Error, Result};
use crate::output::{self, CERTIFICATE};
use crate::workflows::verify::compare_files;

/// The model extended with the items of a table that are not in it: each gets the vector that its
/// names determine. Unknown names are ignored; existing items do not change.
///
/// The weights must be those of the certificate: files whose hashes it does not contain are
/// refused.
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
    let dim = model.dim();
    let mut rows = Vec::with_capacity(all.len() * dim);
    let known = model.standard_errors();
    let known = known.filter(|_| encoder.weights.standard_errors().is_some());
    let mut errors = Vec::new();
    for id in all.ids() {
        if let Some(item) = catalogue.index(id) {
            rows.extend(&model.item_factors()[item * dim..][..dim]);
            errors.extend(known.iter().flat_map(|known| &known[item * dim..][..dim]));
        } else {
            let features = encoder.vocabulary.features(&table, id);
            rows.extend(encoder.weights.vector(&features)?);
            let of_item = encoder.weights.vector_errors(&features)?;
            errors.extend(known.and(of_item).into_iter().flatten());
        }
    }
    let extended = FactorModel::new(*model.scoring(), rows, model.provenance())?;
    let extended = match known {
        Some(_) => extended.with_standard_errors(errors)?,
        None => extended,
    };
    Ok((extended, all))
}

/// A certificate that verifies, private or not.
fn certificate_of(folder: &Path) -> Result<Certificate> {
    let path = folder.join(CERTIFICATE);
    let certificate = output::read_certificate(&path)?;
    match certificate.verify() {
        Ok(_) => Ok(certificate),
        Err(source) => Err(Error::Certificate { path, source }),
    }
}
