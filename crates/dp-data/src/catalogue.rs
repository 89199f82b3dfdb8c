//! The public list of items.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use dp_core::params;

use crate::Result;
use crate::id_numbers::IdNumbers;

/// The origin of the list of items, which a certificate has to state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CatalogueSource {
    /// Provided by the operator, independent of the ratings.
    Declared,
    /// Collected from the ratings: the ids that occur there are *assumed* to be public.
    FromRatings,
}

/// The items, numbered from 0 in an order that depends on the ids alone.
///
/// Ids that are all integers are ordered as numbers, otherwise as text, so that the numbering
/// reveals neither the order of a file nor that of its users. Repeated ids count once, with the
/// first title that was given.
///
/// # Examples
/// ```
/// use dp_data::ItemCatalogue;
/// let items = ItemCatalogue::from_ids(["10", "9", "10"]);
/// assert_eq!(items.ids(), ["9", "10"]);
/// assert_eq!(items.index("10"), Some(1));
/// assert_eq!(items.index("11"), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemCatalogue {
    ids: Vec<String>,
    titles: Vec<Option<String>>,
    lookup: IdNumbers,
}

impl ItemCatalogue {
    /// Creates a catalogue of ids without titles.
    ///
    /// # Panics
    /// If there are 2^32 different ids or more.
    pub fn from_ids<I>(ids: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        Self::from_titled(ids.into_iter().map(|id| (id, None)))
    }

    /// Creates a catalogue of ids, each with a title if it has one.
    ///
    /// # Panics
    /// If there are 2^32 different ids or more.
    pub fn from_titled<I, S>(items: I) -> Self
    where
        I: IntoIterator<Item = (S, Option<String>)>,
        S: Into<String>,
    {
        let mut items: Vec<_> = items.into_iter().map(|(id, t)| (id.into(), t)).collect();
        sort_by_id(&mut items);
        items.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same && kept.1.is_none() {
                kept.1 = later.1.take();
            }
            same
        });
        assert!(
            u32::try_from(items.len()).is_ok(),
            "a catalogue holds fewer than 2^32 items"
        );
        let mut lookup = IdNumbers::default();
        for (index, (id, _)) in (0..).zip(&items) {
            lookup.insert(id.as_bytes(), index);
        }
        let (ids, titles) = items.into_iter().unzip();
        Self {
            ids,
            titles,
            lookup,
        }
    }

    /// Number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are no items.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Ids by index.
    #[must_use]
    pub fn ids(&self) -> &[String] {
        &self.ids
    }

    /// Titles by index.
    #[must_use]
    pub fn titles(&self) -> &[Option<String>] {
        &self.titles
    }

    /// The title of an item, if the item exists and has one.
    #[must_use]
    pub fn title(&self, index: usize) -> Option<&str> {
        self.titles.get(index)?.as_deref()
    }

    /// The index of an id.
    #[must_use]
    pub fn index(&self, id: &str) -> Option<usize> {
        self.index_of_bytes(id.as_bytes()).map(|i| i as usize)
    }

    pub(crate) fn index_of_bytes(&self, id: &[u8]) -> Option<u32> {
        self.lookup.get(id)
    }

    /// The index of the id that is this whole number, if it is found without hashing.
    pub(crate) fn index_of_whole(&self, whole: u32) -> Option<u32> {
        self.lookup.of_whole(whole)
    }
}

/// Stable sort: by number when every id is an integer, then by text.
fn sort_by_id(items: &mut [(String, Option<String>)]) {
    if items.iter().all(|(id, _)| id.parse::<i128>().is_ok()) {
        items.sort_by_cached_key(|(id, _)| (id.parse::<i128>().unwrap_or(0), id.clone()));
    } else {
        items.sort_by(|a, b| a.0.cmp(&b.0));
    }
}

/// Columns of feature values for public items (genres, people, decades), with any number of values
/// per item and column.
///
/// Read one with [`read_item_table`](crate::read_item_table).
///
/// # Privacy
/// Public: nothing in it may be derived from ratings.
///
/// # Examples
/// ```
/// use dp_data::ItemTable;
/// let names = |text: &str| text.split('|').map(str::to_owned).collect::<Vec<_>>();
/// let genres = ItemTable::new(["genres"], [("1", vec![names("War|Drama")]), ("2", vec![names("War")])]);
/// let people = ItemTable::new(["directors"], [("2", vec![names("Ann Lee")])]);
/// let items = genres.join(people);
/// assert_eq!(items.columns(), ["genres", "directors"]);
/// assert_eq!(items.names("2", 1), ["Ann Lee"]);
/// assert!(items.names("1", 1).is_empty() && items.names("3", 0).is_empty());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ItemTable {
    columns: Vec<String>,
    /// One list per column, by id.
    rows: BTreeMap<String, Vec<Vec<String>>>,
}

impl ItemTable {
    /// Creates a table with these columns. A row with too few lists is extended by empty ones,
    /// surplus lists are dropped, and for repeated ids the first row counts.
    pub fn new<C, I, S>(columns: C, rows: I) -> Self
    where
        C: IntoIterator<Item: Into<String>>,
        I: IntoIterator<Item = (S, Vec<Vec<String>>)>,
        S: Into<String>,
    {
        let columns: Vec<String> = columns.into_iter().map(Into::into).collect();
        Self::of_rows(columns, rows.into_iter().map(|(id, row)| (id.into(), row)))
    }

    pub(crate) fn of_rows(
        columns: Vec<String>,
        rows: impl IntoIterator<Item = (String, Vec<Vec<String>>)>,
    ) -> Self {
        let mut kept = BTreeMap::new();
        for (id, mut row) in rows {
            row.resize(columns.len(), Vec::new());
            kept.entry(id).or_insert(row);
        }
        Self {
            columns,
            rows: kept,
        }
    }

    /// Names of the columns.
    #[must_use]
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Number of items.
    #[must_use]
    pub fn n_items(&self) -> usize {
        self.rows.len()
    }

    /// Values of an item in a column; empty if the item or column does not exist.
    #[must_use]
    pub fn names(&self, id: &str, column: usize) -> &[String] {
        let list = self.rows.get(id).and_then(|row| row.get(column));
        list.map_or(&[], Vec::as_slice)
    }

    /// Ids, sorted as text.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.rows.keys().map(String::as_str)
    }

    /// The columns of both tables, for the items of either. An item that is missing in one of them
    /// has no values in its columns.
    #[must_use]
    pub fn join(mut self, mut other: Self) -> Self {
        let n_own = self.columns.len();
        for (id, row) in &mut self.rows {
            let more = other.rows.remove(id);
            row.extend(more.unwrap_or_else(|| vec![Vec::new(); other.columns.len()]));
        }
        for (id, row) in other.rows {
            let mut whole = vec![Vec::new(); n_own];
            whole.extend(row);
            self.rows.insert(id, whole);
        }
        self.columns.append(&mut other.columns);
        self
    }

    /// Adds the years of a column as decades, `1995` as `1990s`. Values that are not whole numbers
    /// from 1 to 9999 are dropped.
    #[must_use]
    pub fn with_decades(mut self, column: &str) -> Self {
        let Some(at) = self.columns.iter().position(|name| name == column) else {
            return self;
        };
        let decade = |name: &String| {
            let year: u16 = name.parse().ok()?;
            (1..=9999)
                .contains(&year)
                .then(|| format!("{}s", year / 10 * 10))
        };
        for row in self.rows.values_mut() {
            row[at] = row[at].iter().filter_map(decade).collect();
        }
        self
    }
}

/// The feature values in a public table of items that at least a given number of items have,
/// numbered column by column, and within a column sorted as text.
///
/// # Privacy
/// Created from the public table alone. How often an item was *rated* does not affect which values
/// are kept.
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
    /// Per column: the values in the order of their numbers, and the numbers by value.
    columns: Vec<(Vec<String>, HashMap<String, u32>)>,
}

impl FeatureVocabulary {
    /// Keeps the values that at least `min_items` items have; a value counts once per item.
    ///
    /// # Errors
    /// [`Error::Param`](crate::Error::Param) if `min_items` is 0, there are 2^32 values or more, or
    /// a column is left without any value, so that it cannot form a category of features.
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

    /// Number of values in each column.
    #[must_use]
    pub fn category_sizes(&self) -> Vec<usize> {
        self.columns.iter().map(|(names, _)| names.len()).collect()
    }

    /// Values of a column in the order of their numbers; empty if the column does not exist.
    #[must_use]
    pub fn names(&self, column: usize) -> &[String] {
        self.columns.get(column).map_or(&[], |(names, _)| names)
    }

    /// Numbers and weights of an item's values, in order of increasing number. The weight is how
    /// often the value is given.
    ///
    /// Values that are not in the vocabulary, either rare or unknown when it was created, are
    /// ignored. An item without any known value, or one that is not in the table, has no features.
    /// `items` may be another table with the same columns in the same order, for example with new
    /// items.
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

    /// The same as rows of numbers, one column per value, for items with these ids.
    ///
    /// # Examples
    /// ```
    /// use dp_data::{FeatureVocabulary, ItemTable};
    /// let genre = |name: &str| vec![vec![name.to_owned()]];
    /// let items = ItemTable::new(["genres"], [("1", genre("Drama")), ("2", genre("War"))]);
    /// let vocabulary = FeatureVocabulary::new(&items, 1)?;
    /// assert_eq!(vocabulary.rows(&items, ["2", "1", "3"]), [0.0, 1.0, 1.0, 0.0, 0.0, 0.0]);
    /// # Ok::<(), dp_data::Error>(())
    /// ```
    pub fn rows<'a>(&self, items: &ItemTable, ids: impl IntoIterator<Item = &'a str>) -> Vec<f64> {
        let n: usize = self.category_sizes().iter().sum();
        let rows = ids.into_iter().flat_map(|id| {
            let mut row = vec![0.0; n];
            for (feature, weight) in self.features(items, id) {
                row[feature as usize] = weight;
            }
            row
        });
        rows.collect()
    }
}

/// Values that enough items have, in order.
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

    #[test]
    fn integers_are_ordered_as_numbers_and_other_ids_as_text() {
        let numbers = ItemCatalogue::from_ids(["100", "20", "3", "-1"]);
        assert_eq!(numbers.ids(), ["-1", "3", "20", "100"]);
        let text = ItemCatalogue::from_ids(["100", "20", "3", "b", "a1"]);
        assert_eq!(text.ids(), ["100", "20", "3", "a1", "b"]);
    }

    #[test]
    fn numerically_equal_ids_stay_apart_in_a_fixed_order() {
        let one = ItemCatalogue::from_ids(["1", "01", "+1"]);
        let two = ItemCatalogue::from_ids(["+1", "1", "01", "1"]);
        assert_eq!(one, two);
        assert_eq!(one.len(), 3);
    }

    #[test]
    fn repeated_ids_keep_the_first_title() {
        let titled = |title: &str| Some(title.to_owned());
        let items = ItemCatalogue::from_titled([
            ("b", titled("B")),
            ("a", None),
            ("b", titled("other")),
            ("a", titled("A")),
        ]);
        assert_eq!(items.ids(), ["a", "b"]);
        assert_eq!(items.title(0), Some("A"));
        assert_eq!(items.title(1), Some("B"));
        assert_eq!(items.title(2), None);
    }

    #[test]
    fn every_id_finds_its_own_index() {
        let items = ItemCatalogue::from_ids((0..500).map(|i| (i * 7 % 501).to_string()));
        for (index, id) in items.ids().iter().enumerate() {
            assert_eq!(items.index(id), Some(index));
        }
        assert_eq!(items.index(""), None);
    }

    fn list(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rows_have_one_list_per_column() {
        let rows = [
            ("b", vec![list(&["x"])]),
            ("a", vec![list(&["y"]), list(&["z"]), list(&["surplus"])]),
            ("b", vec![list(&["later"])]),
        ];
        let table = ItemTable::new(["one", "two"], rows);
        assert_eq!(table.ids().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(table.names("b", 0), ["x"]);
        assert!(table.names("b", 1).is_empty() && table.names("a", 2).is_empty());
    }

    #[test]
    fn joined_tables_keep_the_items_of_both() {
        let left = ItemTable::new(["l"], [("1", vec![list(&["a"])])]);
        let right = ItemTable::new(["r", "s"], [("2", vec![list(&["b"]), list(&["c"])])]);
        let both = left.join(right);
        assert_eq!(both.n_items(), 2);
        assert_eq!(
            (both.names("1", 0), both.names("2", 2)),
            (&list(&["a"])[..], &list(&["c"])[..])
        );
        assert!(both.names("1", 2).is_empty() && both.names("2", 0).is_empty());
    }

    #[test]
    fn years_become_decades() {
        let years = |text: &[&str]| vec![list(text)];
        let rows = [
            ("1", years(&["1999"])),
            ("2", years(&["0", "soon", "1920", "12000"])),
        ];
        let table = ItemTable::new(["year"], rows)
            .with_decades("year")
            .with_decades("none");
        assert_eq!(table.names("1", 0), ["1990s"]);
        assert_eq!(table.names("2", 0), ["1920s"]);
    }

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
