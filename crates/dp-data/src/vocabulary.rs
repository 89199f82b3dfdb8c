//! Names as numbered features.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use dp_core::params;

use crate::{ItemTable, Result};

/// The names of a public table of items that enough items have, numbered: columns one after the other, names within a column in order as text.
///
/// # Privacy
/// Made from the public table alone. How often an item was *rated* has no say in which names are kept.
///
/// # Examples
/// ```
/// use dp_data::{FeatureVocabulary, ItemTable};
/// let names = |text: &str| text.split('|').map(str::to_owned).collect::<Vec<_>>();
/// let items = ItemTable::new(["genres"], [
///     ("1", vec![names("War|Drama")]), ("2", vec![names("War|War")]), ("3", vec![names("Musical")]),
/// ]);
/// let vocabulary = FeatureVocabulary::new(&items, 2)?;
/// assert_eq!(vocabulary.category_sizes(), [1]); // War: two items have it
/// assert_eq!(vocabulary.features(&items, "2"), [(0, 2.0)]);
/// assert!(vocabulary.features(&items, "3").is_empty());
/// # Ok::<(), dp_data::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeatureVocabulary {
    /// Per column: names in the order of their numbers, and numbers by name.
    columns: Vec<(Vec<String>, HashMap<String, u32>)>,
}

impl FeatureVocabulary {
    /// The names that at least `min_items` items have; a name counts once per item.
    ///
    /// # Errors
    /// [`Error::Param`](crate::Error::Param) when `min_items` is 0, there are 2^32 names or more, or a column is left without any name: no category of features can be
    /// made of it.
    pub fn new(items: &ItemTable, min_items: usize) -> Result<Self> {
        params::at_least_one("min_items", min_items)?;
        let (mut columns, mut next) = (Vec::new(), 0_usize);
        for column in 0..items.columns().len() {
            let names = frequent(items, column, min_items);
            params::at_least_one("names of a column that enough items have", names.len())?;
            let range = "below 2^32";
            params::in_range(
                "number of names",
                next + names.len(),
                1,
                u32::MAX as usize,
                range,
            )?;
            let numbers = (next..).map(|n| u32::try_from(n).unwrap_or(u32::MAX));
            let lookup = names.iter().cloned().zip(numbers).collect();
            next += names.len();
            columns.push((names, lookup));
        }
        Ok(Self { columns })
    }

    /// How many names each column has.
    #[must_use]
    pub fn category_sizes(&self) -> Vec<usize> {
        self.columns.iter().map(|(names, _)| names.len()).collect()
    }

    /// Names of a column in the order of their numbers; none for a column that is not there.
    #[must_use]
    pub fn names(&self, column: usize) -> &[String] {
        self.columns.get(column).map_or(&[], |(names, _)| names)
    }

    /// Numbers and weights of an item's names, numbers increasing; the weight is how often the name is given.
    ///
    /// Names that are not in the vocabulary, be they rare or never seen when it was made, count for nothing, in columns as well as items; an item without any known name, or that is not in the
    /// table, has no feature. `items` may be another table with the same columns in the same order: new items.
    #[must_use]
    pub fn features(&self, items: &ItemTable, id: &str) -> Vec<(u32, f64)> {
        let mut found = BTreeMap::new();
        for (column, (_, lookup)) in self.columns.iter().enumerate() {
            for number in items.names(id, column).iter().filter_map(|n| lookup.get(n)) {
                *found.entry(*number).or_insert(0.0) += 1.0;
            }
        }
        found.into_iter().collect()
    }
}

/// Names that enough items have, in order.
fn frequent(items: &ItemTable, column: usize, min_items: usize) -> Vec<String> {
    let mut holders: BTreeMap<&str, usize> = BTreeMap::new();
    for id in items.ids() {
        let names = items.names(id, column).iter().map(String::as_str);
        for name in names.collect::<BTreeSet<_>>() {
            *holders.entry(name).or_default() += 1;
        }
    }
    let kept = holders.into_iter().filter(|&(_, n)| n >= min_items);
    kept.map(|(name, _)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[(&str, &str, &str)]) -> ItemTable {
        let list = |text: &str| -> Vec<String> {
            let names = text.split('|').filter(|n| !n.is_empty());
            names.map(ToOwned::to_owned).collect()
        };
        let rows = rows.iter().map(|&(id, a, b)| (id, vec![list(a), list(b)]));
        ItemTable::new(["genres", "people"], rows)
    }

    #[test]
    fn numbers_run_through_the_columns_and_equal_names_stay_apart() {
        let items = table(&[
            ("1", "War|Ann", "Ann"),
            ("2", "War", "Bob|Ann"),
            ("3", "", ""),
        ]);
        let vocabulary = FeatureVocabulary::new(&items, 1).unwrap();
        assert_eq!(vocabulary.category_sizes(), [2, 2]);
        assert_eq!(vocabulary.names(0), ["Ann", "War"]);
        assert_eq!(
            vocabulary.features(&items, "1"),
            [(0, 1.0), (1, 1.0), (2, 1.0)]
        );
        assert_eq!(
            vocabulary.features(&items, "2"),
            [(1, 1.0), (2, 1.0), (3, 1.0)]
        );
        assert!(vocabulary.features(&items, "3").is_empty());
        assert!(vocabulary.features(&items, "4").is_empty());
    }

    #[test]
    fn a_name_repeated_in_one_item_is_one_item_for_frequency_and_two_for_weight() {
        let items = table(&[
            ("1", "War|War", "Ann"),
            ("2", "Drama", "Ann"),
            ("3", "Drama", ""),
        ]);
        let vocabulary = FeatureVocabulary::new(&items, 2).unwrap();
        assert_eq!(vocabulary.names(0), ["Drama"]);
        assert_eq!(vocabulary.features(&items, "1"), [(1, 1.0)]);
        let new = table(&[("9", "Drama|Drama|Western", "Cleo|Ann")]);
        assert_eq!(vocabulary.features(&new, "9"), [(0, 2.0), (1, 1.0)]);
    }

    #[test]
    fn columns_without_a_frequent_name_are_refused() {
        let items = table(&[("1", "War", "Ann"), ("2", "War", "Bob")]);
        assert!(FeatureVocabulary::new(&items, 2).is_err());
        assert!(FeatureVocabulary::new(&items, 0).is_err());
        assert!(FeatureVocabulary::new(&items, 1).is_ok());
    }
}
