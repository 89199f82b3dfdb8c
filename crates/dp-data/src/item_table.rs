//! What is publicly known of items, as lists of names in columns.

use std::collections::BTreeMap;

/// Columns of names for public items: genres, people, decades, any number of names per item and column.
///
/// Read one with [`read_item_table`](crate::read_item_table).
///
/// # Privacy
/// Public: nothing here may come from ratings.
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
    /// A table of these columns. A row with too few lists has empty ones at its end, surplus lists are dropped, and of an id given twice the first row counts.
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

    /// Names of an item in a column; none for an item or column that is not there.
    #[must_use]
    pub fn names(&self, id: &str, column: usize) -> &[String] {
        let list = self.rows.get(id).and_then(|row| row.get(column));
        list.map_or(&[], Vec::as_slice)
    }

    /// Ids, in order as text.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.rows.keys().map(String::as_str)
    }

    /// The columns of both, for the items of either; an item that one does not have has no names in its columns.
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

    /// Years of a column as decades, `1995` as `1990s`; what is no whole number from 1 to 9999 is dropped.
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
