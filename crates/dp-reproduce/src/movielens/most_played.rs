//! The subset of a table of plays that benchmarks use.

use dp_core::{Interactions, InteractionsBuilder};
use dp_data::{ItemCatalogue, Ratings};

use dp_personal::error::Result;

/// Thresholds that select songs and users. The defaults are those of the usual benchmark (Liang et
/// al. 2018); according to Krichene et al. 2023, table 1, they keep 41,140 songs and 571,355 users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MostPlayed {
    pub(super) min_item_users: usize,
    pub(super) min_user_items: usize,
}

impl MostPlayed {
    /// All songs and users with at least one play.
    pub(super) const EVERYTHING: Self = Self {
        min_item_users: 1,
        min_user_items: 1,
    };
}

impl Default for MostPlayed {
    fn default() -> Self {
        Self {
            min_item_users: 200,
            min_user_items: 20,
        }
    }
}

/// Selects songs with enough users, then users with enough of these songs; `None` if none remain.
///
/// Both thresholds apply to exact counts of private data and decide which rows exist, so this is
/// only for measurements without any guarantee.
pub(super) fn most_played(plays: &Ratings, least: MostPlayed) -> Result<Option<Ratings>> {
    let table = plays.interactions().expose();
    let items = kept_items(table, least.min_item_users);
    let n_items = items.iter().flatten().count();
    let mut builder = InteractionsBuilder::new(n_items);
    let mut ids = Vec::new();
    for (row, id) in table.users().zip(plays.user_ids().expose()) {
        let kept = || row.iter().filter_map(|(item, _)| items[item as usize]);
        if kept().count() < least.min_user_items.max(1) {
            continue;
        }
        let user = u32::try_from(ids.len()).expect("fewer users than before");
        for item in kept() {
            let numbered = builder.push(user, item, 1.0);
            numbered.expect("songs that stay are numbered from 0 on");
        }
        ids.push(id.clone());
    }
    if ids.is_empty() {
        return Ok(None);
    }
    let names = plays.catalogue().ids().iter().zip(&items);
    let names = names.filter(|(_, kept)| kept.is_some());
    let catalogue = ItemCatalogue::from_ids(names.map(|(id, _)| id.clone()));
    let source = plays.catalogue_source();
    Ok(Some(Ratings::new(
        builder.build().0,
        ids,
        catalogue,
        source,
    )?))
}

/// The new column of each item that is kept.
fn kept_items(table: &Interactions, min_users: usize) -> Vec<Option<u32>> {
    let mut next = 0..;
    (0..table.n_items())
        .map(|item| {
            let enough = table.item_major().item(item).len() >= min_users.max(1);
            enough.then(|| next.next()).flatten()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use dp_data::{Layout, RatingsFormat, read_ratings_from};

    #[test]
    fn songs_are_counted_before_users() {
        // b has two listeners, a and c one each; without those, v has one song left and is kept, w
        // has none
        let text = "u\ta\t1\nu\tb\t3\nv\tb\t9\nw\tc\t2\n";
        let format = RatingsFormat::default().with_layout(Layout::Tab);
        let plays = read_ratings_from(text.as_bytes(), "plays", &format, None).unwrap();
        let kept = |min_item_users, min_user_items| {
            let least = MostPlayed {
                min_item_users,
                min_user_items,
            };
            let kept = most_played(&plays, least).unwrap()?;
            let table = kept.interactions().expose();
            let songs = kept.catalogue().ids().to_vec();
            let values: Vec<f32> = table
                .users()
                .flat_map(|row| row.iter().map(|(_, v)| v).collect::<Vec<_>>())
                .collect();
            Some((kept.user_ids().expose().clone(), songs, values))
        };
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(kept(2, 1), Some((words("u v"), words("b"), vec![1.0; 2])));
        assert_eq!(kept(1, 2), Some((words("u"), words("a b c"), vec![1.0; 2])));
        assert_eq!(kept(2, 2), None);
    }
}
