//! A table of public item information, from which the mean of the item prior is learned: a file, an
//! earlier model, or the ratings of users who contribute without protection.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;

use dp_accounting::{Ledger, Status};
use dp_data::{ColumnRole, ItemCatalogue, Ratings, is_usual_column, user_key};
use dp_mechanism::Provenance;
use dp_multitask::{FactorModel, ItemPrior, ScoreModel};

use crate::error::{Error, Result};
use crate::output::{CERTIFICATE, RELEASED, ReleasedRun, read_model, read_run_file};
use crate::settings::{FeedbackKind, LedgerSettings, Method, PriorSettings};
use crate::workflows::evidence::{Described, Public};
use crate::workflows::train::OPT_IN_SHA256;
use crate::workflows::verify::checked_certificate;

/// File of the part of the table that a model was trained with.
pub(crate) const PRIOR: &str = "prior.csv";
/// The column of ids.
pub(crate) const ITEM: &str = "item";
/// Columns named with this word and a number, such as `taste_1`, are taste directions.
pub(crate) const TASTE: &str = "taste";
/// The column of item biases.
pub(crate) const BIAS: &str = "bias";
/// The column with the standard error of an item's bias: published with a table, and not used.
pub(crate) const STANDARD_ERROR: &str = "standard_error";

fn is_taste(column: &str) -> bool {
    let number = column.strip_prefix(TASTE).and_then(|n| n.strip_prefix('_'));
    number.is_some_and(|n| n.parse::<u32>().is_ok())
}

/// Why a table may be used without protecting anybody.
enum Origin {
    /// The operator declares a file public.
    File,
    /// A model whose releases the ledger of the run paid for.
    Paid { certificate: String },
    /// A model that the operator declares public.
    Declared(Provenance),
    /// Ratings of users who are not protected.
    OptIn { n_listed: usize, sha256: String },
}

/// Numbers of items by id, taste directions first.
pub(crate) struct PriorTable {
    names: Vec<String>,
    n_tastes: usize,
    rows: HashMap<String, Row>,
    has_errors: bool,
    origin: Origin,
}

struct Row {
    numbers: Vec<f64>,
    /// 0 if errors are not known.
    standard_error: f64,
}

impl PriorTable {
    /// Reads csv with a header: a column `item` and columns of numbers, each named once, one of which
    /// may be `standard_error`.
    ///
    /// # Errors
    /// [`Error::Read`], and [`Error::Model`] for a file that is not such a table.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(|e| Error::read(path, e))?;
        let wrong = |reason: String| Error::model(path, format!("not a prior of items: {reason}"));
        let mut reader = csv::Reader::from_reader(&bytes[..]);
        let header = reader.headers().map_err(|e| wrong(e.to_string()))?.clone();
        let place = |column: &str| header.iter().position(|name| name == column);
        let id = place(ITEM).ok_or_else(|| wrong(format!("there is no column `{ITEM}`")))?;
        let error_at = place(STANDARD_ERROR);
        let (mut at, others): (Vec<usize>, Vec<usize>) = (0..header.len())
            .filter(|&at| at != id && Some(at) != error_at)
            .partition(|&at| is_taste(&header[at]));
        let n_tastes = at.len();
        at.extend(others);
        if at.is_empty() {
            return Err(wrong("there is no column of numbers".to_owned()));
        }
        let mut rows = HashMap::new();
        for line in reader.records() {
            let line = line.map_err(|e| wrong(e.to_string()))?;
            let number = |at: usize, least: f64| {
                let number = line[at].parse::<f64>().ok();
                number.filter(|x| (least..=1e6).contains(x)).ok_or_else(|| {
                    let (column, item) = (&header[at], &line[id]);
                    wrong(format!(
                        "column `{column}` of item `{item}` is no number from {least:e} to 1e6"
                    ))
                })
            };
            let numbers = at.iter().map(|&at| number(at, -1e6));
            let row = Row {
                numbers: numbers.collect::<Result<_>>()?,
                standard_error: error_at.map_or(Ok(0.0), |at| number(at, 0.0))?,
            };
            if rows.insert(line[id].to_owned(), row).is_some() {
                return Err(wrong(format!("item `{}` has two lines", &line[id])));
            }
        }
        Ok(Self {
            names: at.iter().map(|&at| header[at].to_owned()).collect(),
            n_tastes,
            rows,
            has_errors: error_at.is_some(),
            origin: Origin::File,
        })
    }

    /// Item biases and taste factors, rows `[h_i, q_i]` of length `dim`, with the standard error of
    /// each item.
    fn of_factors(
        ids: &[String],
        (factors, dim): (&[f64], usize),
        errors: Option<Vec<f64>>,
        origin: Origin,
    ) -> Self {
        let tastes = (1..dim).map(|k| format!("{TASTE}_{k}"));
        let rows = ids.iter().zip(factors.chunks_exact(dim)).enumerate();
        let row = |(at, (id, row)): (usize, (&String, &[f64]))| {
            let row = Row {
                numbers: row[1..].iter().chain(&row[..1]).copied().collect(),
                standard_error: errors.as_ref().map_or(0.0, |errors| errors[at]),
            };
            (id.clone(), row)
        };
        Self {
            names: tastes.chain([BIAS.to_owned()]).collect(),
            n_tastes: dim - 1,
            rows: rows.map(row).collect(),
            has_errors: errors.is_some(),
            origin,
        }
    }

    /// The item factors of a model folder, if its training users are charged in the ledger of the
    /// run, or if the model is declared public.
    fn of_model(folder: &Path, is_public: bool, ledger: Option<&Path>) -> Result<Self> {
        let refused = |reason: String| {
            Error::Usage(format!(
                "`prior` is the model {}, and {reason}; give the ledger that paid for it as `ledger`, or declare with `prior_is_public` that \
                 anybody may know it",
                folder.display()
            ))
        };
        let (model, items) = read_model(folder)?;
        let origin = if is_public {
            Origin::Declared(model.provenance())
        } else {
            if !folder.join(CERTIFICATE).exists() {
                return Err(refused("it has no certificate".to_owned()));
            }
            let (certificate, statement) = checked_certificate(folder)?;
            if let Status::NotPrivate { reason } = statement.status {
                return Err(refused(format!(
                    "its certificate promises no privacy: {reason}"
                )));
            }
            let ledger = ledger.filter(|path| path.exists());
            let ledger =
                ledger.ok_or_else(|| refused("no ledger of this run paid for it".to_owned()))?;
            let covered = Ledger::audit(ledger)?.covers(&certificate);
            covered.map_err(|error| {
                refused(format!("{} did not pay for it: {error}", ledger.display()))
            })?;
            let run: Option<ReleasedRun> = read_run_file(folder, RELEASED)?;
            if run
                .and_then(|of| of.run)
                .is_some_and(|run| run.get(OPT_IN_SHA256).is_some())
            {
                return Err(Error::Usage(format!(
                    "`prior` is the model {}, whose run used the ratings of listed users without protection; this run would protect \
                     them: use a model of a run without `opt_in`",
                    folder.display()
                )));
            }
            Origin::Paid {
                certificate: certificate.digest,
            }
        };
        let scoring = model.scoring();
        if scoring.unobserved_weight.is_some() || scoring.score_model == ScoreModel::Plain {
            let text = "`prior` is a model of likes: it must be one of ratings";
            return Err(Error::Usage(text.to_owned()));
        }
        let dim = model.dim();
        let biases = |errors: &[f64]| errors.iter().step_by(dim).copied().collect();
        let errors = FactorModel::standard_errors(&model).map(biases);
        // a run has its own global effects
        let n = 1 + model.n_tastes();
        let rows = model.item_factors().chunks_exact(dim);
        let rows: Vec<f64> = rows.flat_map(|row| &row[..n]).copied().collect();
        Ok(Self::of_factors(items.ids(), (&rows, n), errors, origin))
    }

    /// The assumption of the guarantee about the table; `sha256` is that of [`file`](Self::file).
    pub(crate) fn assumption(&self, sha256: &str) -> String {
        let columns = self.names.join(", ");
        let table = format!("the prior of items (columns {columns}; SHA-256 {sha256})");
        match &self.origin {
            Origin::File => format!("{table} was made from public data, not from these users"),
            Origin::Paid { certificate } => format!(
                "{table} is the model of certificate {certificate}, whose assumptions hold; the ledger of this run paid for its releases"
            ),
            Origin::Declared(provenance) => {
                let unprotected = match provenance {
                    Provenance::Private => "",
                    Provenance::SeededNoise => {
                        ", although its own noise was seeded and it promises its users no privacy"
                    }
                    Provenance::NonPrivate | Provenance::NotTrained => {
                        ", although it was made without noise and promises its users no privacy"
                    }
                };
                format!("{table} is a model that is public, as the operator declares{unprotected}")
            }
            Origin::OptIn { n_listed, sha256 } => format!(
                "{n_listed} listed users (SHA-256 of the sorted ids {sha256}) agreed to contribute without protection: none of them is among the \
                 protected users, and {table} was made from their ratings"
            ),
        }
    }

    /// Number of its columns that are taste factors.
    pub(crate) const fn n_tastes(&self) -> usize {
        self.n_tastes
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
            let errors = self.has_errors.then_some(STANDARD_ERROR);
            let names = self.names.iter().map(String::as_str);
            writer.write_record([ITEM].into_iter().chain(names).chain(errors))?;
            for id in catalogue.ids() {
                if let Some(row) = self.rows.get(id.as_str()) {
                    let error = self.has_errors.then_some(&row.standard_error);
                    let words = row.numbers.iter().chain(error).map(f64::to_string);
                    writer.write_record([id.as_str().to_owned()].into_iter().chain(words))?;
                }
            }
            writer.into_inner().map_err(|e| e.into_error().into())
        };
        lines().map_err(|e| Error::model(Path::new(PRIOR), e))
    }

    /// The table that a run is given, if it is given one. A model must be declared public, or paid
    /// for by the ledger of the run.
    ///
    /// # Errors
    /// As [`read`](Self::read), and [`Error::Usage`] for a run that takes no prior or a model that
    /// nothing shows to be public.
    pub(crate) fn of_run(
        prior: &PriorSettings,
        method: Method,
        feedback: FeedbackKind,
        ledger: Option<&LedgerSettings>,
    ) -> Result<Option<Self>> {
        let named = [("prior", &prior.prior), ("opt_in", &prior.opt_in)];
        let given = named.into_iter().find(|(_, path)| path.is_some());
        let Some((name, _)) = given else {
            return Ok(None);
        };
        if method != Method::Pooled || feedback != FeedbackKind::Explicit {
            let text = format!("`{name}` is for ratings by `method` auto or pooled");
            return Err(Error::Usage(text));
        }
        let Some(path) = &prior.prior else {
            return Ok(None);
        };
        if path.is_dir() {
            let ledger = ledger.and_then(LedgerSettings::file);
            return Self::of_model(path, prior.prior_is_public, ledger).map(Some);
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
            let sums = mean.iter_mut().zip(&row.numbers);
            sums.for_each(|(mean, x)| *mean += x / n_known as f64);
        }
        let others = std::iter::repeat_n(None, n_others);
        let all = rows().chain(others);
        let cells = all.flat_map(|row| row.map_or(&mean, |row| &row.numbers));
        let cells = cells.copied().collect();
        Ok(ItemPrior::new(cells, n, 0..self.n_tastes)?)
    }
}

/// Reads a list of user ids, one a line, as they are in the data: spaces belong to an id, so that
/// no list concerns a user whom it does not name. A first line with a usual name of the user column
/// is a header; also says whether there is one.
///
/// # Errors
/// [`Error::Read`], and [`Error::Model`] for a file without ids.
pub(crate) fn read_user_ids(
    path: &Path,
    user_column: Option<&str>,
) -> Result<(BTreeSet<String>, bool)> {
    let bytes = std::fs::read(path).map_err(|e| Error::read(path, e))?;
    let wrong = |reason: String| Error::model(path, format!("not a list of users: {reason}"));
    let mut lines = csv::ReaderBuilder::new();
    let mut lines = lines.has_headers(false).from_reader(&bytes[..]);
    let (mut ids, mut has_header) = (BTreeSet::new(), false);
    for (at, line) in lines.records().enumerate() {
        let line = line.map_err(|e| wrong(e.to_string()))?;
        match (at, &line[0], line.len()) {
            (0, name, 1)
                if is_usual_column(name, ColumnRole::User) || Some(name) == user_column =>
            {
                has_header = true;
            }
            (_, "", 1) => {}
            (_, id, 1) => _ = ids.insert(id.to_owned()),
            (_, _, n) => {
                return Err(wrong(format!(
                    "it has {n} columns; expected one id on each line, after an optional header `user`"
                )));
            }
        }
    }
    if ids.is_empty() {
        return Err(wrong("it has no ids".to_owned()));
    }
    Ok((ids, has_header))
}

/// Users who contribute without protection, as declared.
pub(crate) struct OptIn {
    keys: HashSet<u128>,
    sha256: String,
}

impl OptIn {
    /// The users on a [list](read_user_ids).
    ///
    /// # Errors
    /// Those of [`read_user_ids`].
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let (ids, _) = read_user_ids(path, None)?;
        Ok(Self {
            keys: ids.iter().map(|id| user_key(id)).collect(),
            sha256: dp_accounting::sha256_hex(&serde_json::to_vec(&ids)?),
        })
    }

    /// SHA-256 of the sorted ids.
    pub(crate) fn sha256(&self) -> &str {
        &self.sha256
    }

    /// The ratings of all other users: the protected ones.
    pub(crate) fn protected(&self, ratings: &Ratings) -> Ratings {
        ratings.of_users(|key| !self.keys.contains(&key))
    }

    /// A table made from all ratings of the listed users, without privacy.
    ///
    /// # Errors
    /// [`Error::Usage`] if none of the listed users has ratings.
    pub(crate) fn table(&self, ratings: &Ratings) -> Result<PriorTable> {
        let own = ratings.of_users(|key| self.keys.contains(&key));
        if own.interactions().expose().n_records() == 0 {
            let text = "`opt_in`: none of the listed users has ratings; list ids as they are in the user column, one a line";
            return Err(Error::Usage(text.to_owned()));
        }
        let described = Described::unknown(own.catalogue().clone());
        let fit = Public::of(&own, &described)?.fit(&described, None)?;
        let dim = fit.rows.len() / own.catalogue().len();
        let origin = Origin::OptIn {
            n_listed: self.keys.len(),
            sha256: self.sha256.clone(),
        };
        let errors = Some(fit.standard_errors);
        let ids = own.catalogue().ids();
        Ok(PriorTable::of_factors(
            ids,
            (&fit.rows, dim),
            errors,
            origin,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_a_list_are_taken_as_they_are_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list");
        std::fs::write(&path, "user\nann \n\" bob\"\n").unwrap();
        let list = OptIn::read(&path).unwrap();
        assert_eq!(list.keys.len(), 2);
        assert!(list.keys.contains(&user_key("ann ")) && list.keys.contains(&user_key(" bob")));
    }
}
