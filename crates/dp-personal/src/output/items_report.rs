//! The files of item vectors that were learned from users on devices, and the summary of the run.

use dp_accounting::Certificate;
use dp_data::ItemCatalogue;
use dp_mechanism::Provenance;
use dp_page::Table;
use dp_pubfeat::ItemStatistics;
use serde_json::{Value, json};

use super::model_file::item_vectors_files;
use super::release::internal_of;
use super::statement::fact;
use super::{InternalRun, Release, RunReport, Seconds};
use crate::error::Result;
use crate::settings::{ItemModelSettings, OutputSettings};

/// Name of the workflow in files and ledgers.
pub(crate) const ITEMS_COMMAND: &str = "items";

/// What follows from the releases of a run.
pub(crate) struct ItemVectors {
    /// Shape `(n_items, dim)`, row-major.
    pub(crate) vectors: Vec<f64>,
    /// Their standard errors, in the same shape.
    pub(crate) errors: Vec<f64>,
    pub(crate) statistics: ItemStatistics,
}

/// The releases of a run.
pub(crate) struct ItemsRelease<'a> {
    pub(crate) certificate: &'a Certificate,
    pub(crate) provenance: Provenance,
    pub(crate) model: &'a ItemVectors,
    pub(crate) catalogue: &'a ItemCatalogue,
    pub(crate) settings: &'a ItemModelSettings,
    pub(crate) columns: &'a [String],
    /// All public inputs that determined the run.
    pub(crate) run: &'a Value,
}

impl Release for ItemsRelease<'_> {
    fn certificate(&self) -> &Certificate {
        self.certificate
    }

    fn files(&self) -> Result<Vec<(&'static str, Vec<u8>)>> {
        let of = (self.settings.vector_norm, self.provenance);
        Ok(item_vectors_files(self.model, of, self.catalogue)?.into())
    }

    fn command(&self) -> &'static str {
        ITEMS_COMMAND
    }

    fn model_line(&self) -> String {
        let (n_items, dim) = (self.catalogue.len(), self.settings.dim);
        let columns = self.columns.join(", ");
        format!("{n_items} items, vectors of length {dim} from features ({columns}), SSP-c")
    }

    fn settings(&self) -> Value {
        json!({ "model": self.run["model"], "features": self.columns })
    }

    fn public(&self) -> Option<&Value> {
        Some(self.run)
    }
}

/// The summary of a run: nothing is measured, because users are on devices.
pub(crate) struct ItemsReport<'a> {
    pub(crate) release: &'a ItemsRelease<'a>,
    pub(crate) seconds: Seconds,
}

impl RunReport for ItemsReport<'_> {
    fn release(&self) -> &impl Release {
        self.release
    }

    fn internal(&self) -> InternalRun {
        internal_of(self.release, self.seconds)
    }

    fn table(&self) -> Table {
        Table::new("", ["", ""], [])
    }

    fn verdict_line(&self, _: &OutputSettings) -> (String, String) {
        fact("verdict", "none: examples are on devices")
    }

    fn objects(&self) -> (Value, Value) {
        (self.release.settings(), json!({ "seconds": self.seconds }))
    }
}
