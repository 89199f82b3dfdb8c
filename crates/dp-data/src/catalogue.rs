//! The public list of items.

use std::collections::HashMap;

/// Where the list of items came from: part of what a certificate has to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CatalogueSource {
    /// Given by the operator, independent of the ratings.
    Declared,
    /// Collected from the ratings: the ids found there are *assumed* to be public.
    FromRatings,
}

/// The items, numbered from 0 in an order that depends on the ids alone.
///
/// Ids that are all integers are ordered as numbers, otherwise as text, so that neither the
/// order of a file nor that of its users shows in the numbering. An id given twice counts once,
/// with the first title given.
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
    lookup: HashMap<Box<[u8]>, u32>,
}

impl ItemCatalogue {
    /// A catalogue of ids without titles.
    ///
    /// # Panics
    /// When there are 2^32 different ids or more.
    pub fn from_ids<I>(ids: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        Self::from_titled(ids.into_iter().map(|id| (id, None)))
    }

    /// A catalogue of ids, each with a title if it has one.
    ///
    /// # Panics
    /// When there are 2^32 different ids or more.
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
        let lookup = (0..)
            .zip(&items)
            .map(|(index, (id, _))| (id.as_bytes().into(), index))
            .collect();
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

    /// Whether there is no item.
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

    /// The title of an item, if there is such an item and it has one.
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
        self.lookup.get(id).copied()
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
}
