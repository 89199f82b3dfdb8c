//! Public features of rated items: genre, decade, and popularity by released noisy counts.

use std::path::Path;

use dp_data::{ItemAttributes, ItemCatalogue, Ratings, SampleTable};

use crate::error::Result;

/// Groups of items of equal size by noisy count.
const POPULARITY_BUCKETS: usize = 4;

/// All items with their public information, in the order of their catalogue.
#[derive(Clone)]
pub struct ItemTable {
    catalogue: ItemCatalogue,
    genres: Vec<String>,
    decades: Vec<u16>,
    items: Vec<ItemAttributes>,
}

impl ItemTable {
    /// Reads a table of items with title, year and genres.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read(path: &Path) -> Result<Self> {
        let read = dp_data::read_item_attributes(path)?;
        let catalogue = ItemCatalogue::from_ids(read.iter().map(|item| item.id.clone()));
        let mut items = vec![ItemAttributes::default(); catalogue.len()];
        for item in read {
            if let Some(at) = catalogue.index(&item.id) {
                items[at] = item;
            }
        }
        let genres = items.iter().flat_map(|item| item.genres.clone());
        let decades = items.iter().filter_map(decade);
        Ok(Self {
            genres: distinct(genres),
            decades: distinct(decades),
            catalogue,
            items,
        })
    }

    /// The items.
    pub const fn catalogue(&self) -> &ItemCatalogue {
        &self.catalogue
    }

    /// All genres, each once.
    pub fn genres(&self) -> &[String] {
        &self.genres
    }

    /// Hash of the items and their public information.
    pub(crate) fn sha256(&self) -> String {
        let said = self.items.iter().map(|item| format!("{item:?}\n"));
        dp_accounting::sha256_hex(said.collect::<String>().as_bytes())
    }

    /// Names of the features.
    pub fn names(&self) -> Vec<String> {
        let genres = self.genres.iter().map(|genre| format!("genre {genre}"));
        let decades = self.decades.iter().map(|decade| format!("{decade}s"));
        let popularity = (1..=POPULARITY_BUCKETS)
            .map(|bucket| format!("popularity {bucket} of {POPULARITY_BUCKETS}"));
        genres.chain(decades).chain(popularity).collect()
    }

    /// The largest number of features that an item has.
    pub fn largest(&self) -> f64 {
        let of = |item: &ItemAttributes| item.genres.len() + usize::from(item.year.is_some()) + 1;
        self.items.iter().map(of).max().unwrap_or(1) as f64
    }

    /// All items with their features, computed from public information and released counts.
    pub fn described(&self, noisy_counts: &[f64]) -> DescribedItems {
        DescribedItems {
            ids: self.catalogue.ids().to_vec(),
            names: self.names(),
            cells: self.features(noisy_counts),
        }
    }

    /// Features of all items, 0 or 1.
    fn features(&self, noisy_counts: &[f64]) -> Vec<f32> {
        let buckets = buckets(noisy_counts);
        let flag = |yes: bool| f32::from(u8::from(yes));
        let mut cells = Vec::new();
        for (item, bucket) in self.items.iter().zip(buckets) {
            let genres = self.genres.iter().map(|genre| item.genres.contains(genre));
            cells.extend(genres.map(flag));
            let mine = decade(item);
            cells.extend(self.decades.iter().map(|&other| flag(mine == Some(other))));
            cells.extend((0..POPULARITY_BUCKETS).map(|other| flag(other == bucket)));
        }
        cells
    }
}

/// Items with their features as model inputs: public.
pub struct DescribedItems {
    ids: Vec<String>,
    names: Vec<String>,
    /// A row of features for each item.
    cells: Vec<f32>,
}

impl DescribedItems {
    /// Ratings of these items as rows of their features.
    ///
    /// # Errors
    /// When a rated item is not in the table.
    pub fn rows_of(&self, ratings: &Ratings) -> Result<SampleTable> {
        let names = self.names.clone();
        Ok(SampleTable::of_ratings(ratings, names, &self.cells)?)
    }

    /// A row for each item: its id and its features, under their names.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn csv(&self) -> csv::Result<Vec<u8>> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let item = std::iter::once("item");
        writer.write_record(item.chain(self.names.iter().map(String::as_str)))?;
        for (id, row) in self
            .ids
            .iter()
            .zip(self.cells.chunks_exact(self.names.len()))
        {
            let cells = row.iter().map(f32::to_string);
            writer.write_record(std::iter::once(id.clone()).chain(cells))?;
        }
        writer.into_inner().map_err(|e| e.into_error().into())
    }
}

fn decade(item: &ItemAttributes) -> Option<u16> {
    item.year.map(|year| year / 10 * 10)
}

fn distinct<T: Ord>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = all.collect();
    all.sort();
    all.dedup();
    all
}

/// Groups of equal size by count, smallest counts first.
fn buckets(counts: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..counts.len()).collect();
    order.sort_by(|&a, &b| counts[a].total_cmp(&counts[b]));
    let mut buckets = vec![0; counts.len()];
    for (rank, item) in order.into_iter().enumerate() {
        buckets[item] = rank * POPULARITY_BUCKETS / counts.len();
    }
    buckets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_have_their_genres_their_decade_and_their_popularity() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("items.tsv");
        let text =
            "item\tyear\tgenres\n10\t1995\tWar|Comedy\n2\t\tComedy\n3\t1931\t\n4\t1990\tWar\n";
        std::fs::write(&path, text).unwrap();
        let table = ItemTable::read(&path).unwrap();
        assert_eq!(table.catalogue().ids(), ["2", "3", "4", "10"]);
        let names = table.names();
        assert_eq!(names[..4], ["genre Comedy", "genre War", "1930s", "1990s"]);
        let counts = [-3.0, 9.0, 4.0, 5.0];
        let csv = String::from_utf8(table.described(&counts).csv().unwrap()).unwrap();
        let lines: Vec<&str> = csv.lines().collect();
        assert!(lines[0].starts_with("item,genre Comedy,genre War,1930s,1990s,popularity 1 of 4,"));
        assert_eq!(
            [lines[1], lines[4]],
            ["2,1,0,0,0,1,0,0,0", "10,1,1,0,1,0,0,1,0"]
        );
        let cells = table.features(&counts);
        let of = |at: usize| &cells[at * names.len()..][..names.len()];
        assert_eq!(of(0), [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
        assert_eq!(of(1), [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
        assert_eq!(of(3), [1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0]);
    }
}
