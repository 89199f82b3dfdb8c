//! A table of public item information, from which the mean of the item prior is learned.

use std::collections::HashMap;
use std::path::Path;

use dp_data::ItemCatalogue;
use dp_multitask::ItemPrior;

use crate::error::{Error, Result};
use crate::settings::{FeedbackKind, Method, PriorSettings};

/// File of the part of the table that a model was trained with.
pub(crate) const PRIOR: &str = "prior.csv";
/// The column of ids.
pub(crate) const ITEM: &str = "item";
/// Columns named with this word and a number, such as `taste_1`, are taste directions.
pub(crate) const TASTE: &str = "taste";
/// Columns with the standard errors of others: they are not used.
pub(crate) const STANDARD_ERROR: &str = "standard_error";

fn is_taste(column: &str) -> bool {
    let number = column.strip_prefix(TASTE).and_then(|n| n.strip_prefix('_'));
    number.is_some_and(|n| n.parse::<u32>().is_ok())
}

/// Numbers of items by id, taste directions first.
pub(crate) struct PriorTable {
    names: Vec<String>,
    n_tastes: usize,
    rows: HashMap<String, Vec<f64>>,
}

impl PriorTable {
    /// Reads csv with a header: a column `item` and columns of numbers, each named once.
    ///
    /// # Errors
    /// [`Error::Read`], and [`Error::Model`] for a file that is not such a table.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(|e| Error::read(path, e))?;
        let wrong = |reason: String| Error::model(path, format!("not a prior of items: {reason}"));
        let mut reader = csv::Reader::from_reader(&bytes[..]);
        let header = reader.headers().map_err(|e| wrong(e.to_string()))?.clone();
        let id = header.iter().position(|name| name == ITEM);
        let id = id.ok_or_else(|| wrong(format!("there is no column `{ITEM}`")))?;
        let used = |name: &str| name != ITEM && name != STANDARD_ERROR;
        let (mut at, others): (Vec<usize>, Vec<usize>) = (0..header.len())
            .filter(|&at| used(&header[at]))
            .partition(|&at| is_taste(&header[at]));
        let n_tastes = at.len();
        at.extend(others);
        if at.is_empty() {
            return Err(wrong("there is no column of numbers".to_owned()));
        }
        let mut rows = HashMap::new();
        for line in reader.records() {
            let line = line.map_err(|e| wrong(e.to_string()))?;
            let number = |&at: &usize| {
                let number = line[at].parse::<f64>().ok().filter(|x| x.abs() <= 1e6);
                number.ok_or_else(|| {
                    let (column, item) = (&header[at], &line[id]);
                    wrong(format!(
                        "column `{column}` of item `{item}` is no number from -1e6 to 1e6"
                    ))
                })
            };
            let row = at.iter().map(number).collect::<Result<Vec<f64>>>()?;
            if rows.insert(line[id].to_owned(), row).is_some() {
                return Err(wrong(format!("item `{}` has two lines", &line[id])));
            }
        }
        Ok(Self {
            names: at.iter().map(|&at| header[at].to_owned()).collect(),
            n_tastes,
            rows,
        })
    }

    /// The assumption of the guarantee about the table; `sha256` is that of [`file`](Self::file).
    pub(crate) fn assumption(&self, sha256: &str) -> String {
        let columns = self.names.join(", ");
        format!(
            "the prior of items (columns {columns}; SHA-256 {sha256}) was made from public data, not from these users"
        )
    }

    /// Number of items of a catalogue that the table contains.
    pub(crate) fn n_known(&self, catalogue: &ItemCatalogue) -> usize {
        let ids = catalogue.ids().iter();
        ids.filter(|id| self.rows.contains_key(id.as_str())).count()
    }

    /// The part of the table for the items of a catalogue.
    pub(crate) fn file(&self, catalogue: &ItemCatalogue) -> Result<Vec<u8>> {
        let lines = || -> csv::Result<Vec<u8>> {
            let mut writer = csv::Writer::from_writer(Vec::new());
            writer.write_record(
                [ITEM]
                    .into_iter()
                    .chain(self.names.iter().map(String::as_str)),
            )?;
            for id in catalogue.ids() {
                if let Some(row) = self.rows.get(id.as_str()) {
                    let words = row.iter().map(f64::to_string);
                    writer.write_record([id.as_str().to_owned()].into_iter().chain(words))?;
                }
            }
            writer.into_inner().map_err(|e| e.into_error().into())
        };
        lines().map_err(|e| Error::model(Path::new(PRIOR), e))
    }

    /// The table of a run, if it has one.
    ///
    /// # Errors
    /// As [`read`](Self::read), and [`Error::Usage`] for a run that takes no prior.
    pub(crate) fn of_run(
        prior: &PriorSettings,
        method: Method,
        feedback: FeedbackKind,
    ) -> Result<Option<Self>> {
        let Some(path) = &prior.prior else {
            return Ok(None);
        };
        if method != Method::Pooled || feedback != FeedbackKind::Explicit {
            let text = "`prior` is for ratings by `method` auto or pooled";
            return Err(Error::Usage(text.to_owned()));
        }
        Self::read(path).map(Some)
    }

    /// The same part for training. Items of the catalogue that are not in the table get the mean of
    /// those that are.
    ///
    /// # Errors
    /// [`Error::Usage`] if the table contains none of the items.
    pub(crate) fn of(&self, catalogue: &ItemCatalogue) -> Result<ItemPrior> {
        self.with_others(catalogue, 0)
    }

    /// The same for a catalogue and, after it, `n_others` items that nothing is known of.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub(crate) fn with_others(
        &self,
        catalogue: &ItemCatalogue,
        n_others: usize,
    ) -> Result<ItemPrior> {
        let n = self.names.len();
        let rows = || (catalogue.ids().iter()).map(|id| self.rows.get(id.as_str()));
        let n_known = rows().flatten().count();
        if n_known == 0 {
            let text = "`prior` has none of the items of the ratings: its column item must have the same ids";
            return Err(Error::Usage(text.to_owned()));
        }
        let mut mean = vec![0.0; n];
        for row in rows().flatten() {
            let sums = mean.iter_mut().zip(row);
            sums.for_each(|(mean, x)| *mean += x / n_known as f64);
        }
        let others = std::iter::repeat_n(None, n_others);
        let all = rows().chain(others);
        let cells = all.flat_map(|row| row.unwrap_or(&mean).clone());
        Ok(ItemPrior::new(cells.collect(), n, 0..self.n_tastes)?)
    }
}
