//! Feature weights on disk: csv with a row for each name, which is also the vocabulary.

use std::path::Path;

use dp_data::{FeatureVocabulary, ItemTable};
use dp_pubfeat::FeatureWeights;

use super::items::Items;
use crate::error::{Error, Result};

/// One row for the part shared by all items, without column and name; then one for each name,
/// column by column. Behind the weights their standard errors, if they are known; in the first row
/// those of the vector of an item without features.
pub(crate) const FEATURE_WEIGHTS: &str = "feature_weights.csv";

/// End of the names of columns with standard errors.
const ERROR: &str = "_error";

pub(super) fn write(weights: &FeatureWeights, items: &Items) -> Result<(&'static str, Vec<u8>)> {
    let lines = || {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let tastes = (1..weights.dim()).map(|k| format!("taste_{k}"));
        let names: Vec<String> = std::iter::once("bias".to_owned()).chain(tastes).collect();
        let errors = weights.standard_errors();
        let of_errors = errors.iter().flat_map(|_| &names);
        let of_errors: Vec<String> = of_errors.map(|name| name.clone() + ERROR).collect();
        let head = ["column", "name"].map(str::to_owned);
        writer.write_record(head.iter().chain(&names).chain(&of_errors))?;
        let mut line = |column: &str, name: &str, numbers: &[f64], errors: Option<&[f64]>| {
            let words = [column.to_owned(), name.to_owned()].into_iter();
            let numbers = numbers.iter().chain(errors.unwrap_or_default());
            writer.write_record(words.chain(numbers.map(f64::to_string)))
        };
        line("", "", weights.shared(), errors.map(|(shared, _)| shared))?;
        let mut feature = 0;
        for (at, column) in items.table.columns().iter().enumerate() {
            for name in items.vocabulary.names(at) {
                let dim = weights.dim();
                let errors = errors.map(|(_, all)| &all[feature * dim..][..dim]);
                line(column, name, weights.feature(feature), errors)?;
                feature += 1;
            }
        }
        writer.into_inner().map_err(|e| e.into_error().into())
    };
    let bytes = lines().map_err(|e: csv::Error| Error::model(Path::new(FEATURE_WEIGHTS), e))?;
    Ok((FEATURE_WEIGHTS, bytes))
}

/// Checks that the names can be written and read back, before anything is spent on their weights.
pub(super) fn check(items: &Items, path: &Path) -> Result<()> {
    let sizes = items.vocabulary.category_sizes();
    let zeros = vec![0.0; sizes.iter().sum()];
    let (_, bytes) = write(&FeatureWeights::new(1, &sizes, vec![0.0], zeros)?, items)?;
    let same = |read: &Encoder| {
        read.columns == items.table.columns() && read.vocabulary == items.vocabulary
    };
    match Encoder::parse(&bytes) {
        Ok(read) if same(&read) => Ok(()),
        Ok(_) => Err(Error::model(path, "its names do not read back as they are")),
        Err(reason) => Err(Error::model(path, reason)),
    }
}

/// Feature weights with their names.
pub(super) struct Encoder {
    pub(super) columns: Vec<String>,
    pub(super) vocabulary: FeatureVocabulary,
    pub(super) weights: FeatureWeights,
}

impl Encoder {
    /// Reads the file of a model folder.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read(path).map_err(|e| Error::read(path, e))?;
        Self::parse(&text).map_err(|reason| Error::model(path, reason))
    }

    fn parse(text: &[u8]) -> Result<Self, String> {
        let mut reader = csv::Reader::from_reader(text);
        let head = reader.headers().map_err(|e| e.to_string())?;
        let n_errors = head.iter().filter(|name| name.ends_with(ERROR)).count();
        let dim = head.len().saturating_sub(2 + n_errors);
        let mut lines = reader.records();
        let mut line = || -> Result<Option<(String, String, Vec<f64>)>, String> {
            let record = match lines.next() {
                Some(record) => record.map_err(|e| e.to_string())?,
                None => return Ok(None),
            };
            let numbers = record.iter().skip(2).map(str::parse);
            let numbers: Result<Vec<f64>, _> = numbers.collect();
            let word = |at: usize| record.get(at).unwrap_or_default().to_owned();
            let numbers = numbers.map_err(|e| format!("a weight is no number: {e}"))?;
            Ok(Some((word(0), word(1), numbers)))
        };
        let (_, _, mut shared) = line()?.ok_or("it has no line of what all items share")?;
        let mut of_shared = shared.split_off(dim.min(shared.len()));
        let (mut columns, mut rows) = (Vec::<String>::new(), Vec::new());
        let (mut features, mut of_features) = (Vec::new(), Vec::new());
        while let Some((column, name, mut numbers)) = line()? {
            if columns.last() != Some(&column) {
                columns.push(column);
            }
            rows.push((columns.len() - 1, name));
            of_features.extend(numbers.split_off(dim.min(numbers.len())));
            features.extend(numbers);
        }
        let vocabulary = vocabulary(&columns, &rows)?;
        let sizes = vocabulary.category_sizes();
        let read = || {
            let weights = FeatureWeights::new(dim, &sizes, shared, features)?;
            match n_errors {
                0 => Ok(weights),
                _ => weights.with_standard_errors(std::mem::take(&mut of_shared), of_features),
            }
        };
        let weights = read().map_err(|e: dp_pubfeat::Error| e.to_string())?;
        Ok(Self {
            columns,
            vocabulary,
            weights,
        })
    }
}

/// The names as a vocabulary, whose numbering must match the file's.
fn vocabulary(columns: &[String], rows: &[(usize, String)]) -> Result<FeatureVocabulary, String> {
    let items = rows.iter().enumerate().map(|(item, (column, name))| {
        let mut lists = vec![Vec::new(); columns.len()];
        lists[*column].push(name.clone());
        (item.to_string(), lists)
    });
    let table = ItemTable::new(columns.iter().cloned(), items);
    let vocabulary = FeatureVocabulary::new(&table, 1).map_err(|e| e.to_string())?;
    let numbered = (0..columns.len()).flat_map(|c| vocabulary.names(c).iter().map(move |n| (c, n)));
    if numbered.eq(rows.iter().map(|(column, name)| (*column, name))) {
        return Ok(vocabulary);
    }
    Err("its names are repeated or not in order".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_read_back_as_they_were_written() {
        let list = |text: &str| text.split('|').map(str::to_owned).collect::<Vec<_>>();
        let rows = [
            ("1", vec![list("War|\"q\", x"), list("Ann")]),
            ("2", vec![list("Art"), list("Bob")]),
        ];
        let table = ItemTable::new(["genres", "people"], rows);
        let vocabulary = FeatureVocabulary::new(&table, 1).unwrap();
        let numbers: Vec<f64> = (0..10).map(|k| f64::from(k).sqrt() / 3.0).collect();
        let weights = FeatureWeights::new(2, &[3, 2], vec![0.1, -1e-300], numbers).unwrap();
        let items = Items { table, vocabulary };
        let errors: Vec<f64> = (0..10).map(|k| f64::from(k) / 7.0).collect();
        let with_errors = weights
            .clone()
            .with_standard_errors(vec![0.2, 1e-9], errors);
        for weights in [weights, with_errors.unwrap()] {
            let (_, bytes) = write(&weights, &items).unwrap();
            let read = Encoder::parse(&bytes).unwrap();
            assert_eq!(read.columns, ["genres", "people"]);
            assert_eq!(read.weights, weights);
            assert_eq!(read.vocabulary, items.vocabulary);
        }
    }

    #[test]
    fn names_that_would_not_read_back_are_refused() {
        let items = |columns: [&str; 2]| {
            let row = vec![vec!["War".to_owned()], vec!["Ann".to_owned()]];
            let table = ItemTable::new(columns, [("1", row)]);
            let vocabulary = FeatureVocabulary::new(&table, 1).unwrap();
            Items { table, vocabulary }
        };
        let path = Path::new("items.csv");
        check(&items(["genres", "people"]), path).unwrap();
        let refused = check(&items(["genres", "genres"]), path).unwrap_err();
        assert!(refused.to_string().contains("items.csv"), "{refused}");
    }

    #[test]
    fn damaged_files_are_told_apart() {
        for (text, reason) in [
            ("column,name,bias\n", "no line of what all items share"),
            ("column,name,bias\n,,1\ng,War,x\n", "no number"),
            ("column,name,bias\n,,1\ng,War,1\ng,Art,1\n", "not in order"),
            ("column,name,bias\n,,1\ng,War,1\ng,War,1\n", "not in order"),
            ("column,name,bias\n,,1\ng,War,NaN\n", "weight of a feature"),
            ("column,name,bias\n,,1\ng,War,1,2\n", "CSV error"),
            (
                "column,name,bias,bias_error\n,,1,-1\ng,War,1,2\n",
                "standard error",
            ),
            ("column,name,bias,x_error,y_error\n,,1,1,1\n", "shared part"),
        ] {
            let Err(found) = Encoder::parse(text.as_bytes()) else {
                panic!("{text} was read")
            };
            assert!(found.contains(reason), "{found}");
        }
    }
}
