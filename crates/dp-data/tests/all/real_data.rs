//! Published data sets, read unmodified. Expected in `$DP_DATA`, otherwise in `../shared/data` next
//! to the workspace.

use std::path::PathBuf;

use dp_data::{
    CatalogueSource, Ratings, RatingsFormat, read_catalogue, read_ratings,
    read_ratings_with_catalogue,
};

fn data_file(name: &str) -> PathBuf {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = std::env::var_os("DP_DATA").map_or_else(beside, PathBuf::from);
    let path = folder.join(name);
    assert!(
        path.is_file(),
        "{} is missing: set DP_DATA to the folder of the real data sets",
        path.display()
    );
    path
}

fn read(name: &str) -> Ratings {
    read_ratings(data_file(name), &RatingsFormat::default()).unwrap()
}

/// Users, items and records.
fn size(ratings: &Ratings) -> (usize, usize, usize) {
    let table = ratings.interactions().expose();
    (table.n_users(), table.n_items(), table.n_records())
}

/// The number of records with each of the values.
fn value_counts<const N: usize>(ratings: &Ratings, values: [f32; N]) -> [usize; N] {
    let table = ratings.interactions().expose();
    values.map(|value| {
        let rows = table.users();
        rows.flat_map(|row| row.iter())
            .filter(|r| r.1.to_bits() == value.to_bits())
            .count()
    })
}

#[test]
#[ignore = "needs the real data sets; see CONTRIBUTING.md"]
fn real_data_movielens_1m_is_read_whole() {
    let ratings = read("ml-1m/ratings.csv.gz");
    assert_eq!(size(&ratings), (6_040, 3_706, 1_000_203));
    assert_eq!(ratings.summary().expose().n_read, 1_000_203);
    assert_eq!(
        value_counts(&ratings, [1.0, 2.0, 3.0, 4.0, 5.0]),
        [56_172, 107_556, 261_196, 348_970, 226_309]
    );
    let ids = ratings.catalogue().ids();
    assert_eq!((ids[0].as_str(), ids[3_705].as_str()), ("1", "3952"));
    let star_wars = ratings.catalogue().index("260").unwrap();
    let by_item = ratings.interactions().expose().item_major();
    assert_eq!(by_item.item(star_wars).len(), 2_991);
}

#[test]
#[ignore = "needs the real data sets; see CONTRIBUTING.md"]
fn real_data_movielens_1m_with_its_catalogue_keeps_unrated_items() {
    let catalogue = read_catalogue(data_file("ml-1m/items.tsv.gz")).unwrap();
    assert_eq!(catalogue.len(), 3_883);
    let toy_story = catalogue.index("1").unwrap();
    assert!(catalogue.title(toy_story).unwrap().starts_with("Toy Story"));
    let path = data_file("ml-1m/ratings.csv.gz");
    let ratings = read_ratings_with_catalogue(path, &RatingsFormat::default(), catalogue).unwrap();
    assert_eq!(size(&ratings), (6_040, 3_883, 1_000_203));
    assert_eq!(ratings.catalogue_source(), CatalogueSource::Declared);
    assert_eq!(ratings.summary().expose().n_outside_catalogue, 0);
}

#[test]
#[ignore = "needs the real data sets; see CONTRIBUTING.md"]
fn real_data_movielens_100k_is_read_whole() {
    let ratings = read("ml-100k/ratings.csv.gz");
    assert_eq!(size(&ratings), (943, 1_682, 100_000));
    let counts = value_counts(&ratings, [1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(counts.iter().sum::<usize>(), 100_000);
    let shortest = ratings
        .interactions()
        .expose()
        .users()
        .map(|row| row.len())
        .min();
    assert_eq!(shortest, Some(20));
    let catalogue = read_catalogue(data_file("ml-100k/items.tsv.gz")).unwrap();
    assert_eq!(catalogue.ids(), ratings.catalogue().ids());
}

#[test]
#[ignore = "needs the real data sets; see CONTRIBUTING.md"]
fn real_data_movielens_small_has_half_stars() {
    let ratings = read("ml-latest-small-2016/ratings.csv.gz");
    assert_eq!(size(&ratings), (671, 9_066, 100_004));
    let counts = value_counts(&ratings, [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0]);
    assert_eq!(counts.iter().sum::<usize>(), 100_004);
    assert!(counts.iter().step_by(2).all(|&half_stars| half_stars > 0));
}
