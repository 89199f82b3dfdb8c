//! Parquet compared with csv of the same tables, nulls and types that csv cannot express, damage,
//! and how much is held in memory.

#![allow(clippy::cast_possible_truncation, reason = "small made numbers")]

mod damaged;
mod generated;

use std::fs::{self, File};
use std::path::Path;

use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};

use self::generated::{Cells, Generated, floats, texts, wholes};
use super::{BATCH, Column, RowGroups, is_unread};
use crate::{
    ColumnRole, Error, Expected, ItemCatalogue, Ratings, RatingsColumns, RatingsFormat, Result,
    SampleColumns, SampleTable, read_catalogue, read_history, read_item_attributes,
    read_item_table, read_ratings, read_ratings_from, read_samples,
};

/// Ratings of 30 users, with typical values and some missing ones.
fn rows() -> (Vec<i64>, Vec<i64>, Vec<f64>) {
    let value = |at: i64| match at % 41 {
        0 => f64::NAN,
        1 => f64::NEG_INFINITY,
        2 => 1e300,
        k => k as f64 * 0.1 + 1.0 / 3.0,
    };
    let rows = 0..300_i64;
    (
        rows.clone().map(|at| at * at % 30 - 3).collect(),
        rows.clone().map(|at| at * 7 % 11 + 4_000_000_000).collect(),
        rows.map(value).collect(),
    )
}

fn csv(path: &Path, header: &str, lines: impl IntoIterator<Item = String>) {
    let lines: Vec<String> = lines.into_iter().collect();
    fs::write(path, format!("{header}\n{}\n", lines.join("\n"))).unwrap();
}

/// Everything that is read, with records compared bit for bit.
fn seen(ratings: &Ratings) -> impl PartialEq + std::fmt::Debug + use<> {
    let table = ratings.interactions().expose();
    let records: Vec<(u32, Vec<(u32, u32)>)> = (0..)
        .zip(table.users())
        .map(|(user, row)| {
            (
                user,
                row.iter().map(|(item, y)| (item, y.to_bits())).collect(),
            )
        })
        .collect();
    (
        records,
        ratings.user_ids().expose().clone(),
        ratings.catalogue().ids().to_vec(),
        format!("{:?}", ratings.summary().expose()),
    )
}

#[test]
fn the_same_table_as_csv_gives_the_same_ratings() {
    let (users, items, values) = rows();
    let lines = users.iter().zip(&items).zip(&values);
    let lines = lines.map(|((user, item), y)| format!("{user},{item},{y}"));
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("t.csv");
    csv(&text, "who,movieId,Rating", lines);
    let format = RatingsFormat::default().with_columns(RatingsColumns {
        user: Some("who".to_owned()),
        ..RatingsColumns::default()
    });
    let expected = seen(&read_ratings(&text, &format).unwrap());
    let zstd = Compression::ZSTD(ZstdLevel::default());
    let gzip = Compression::GZIP(GzipLevel::default());
    for compression in [Compression::UNCOMPRESSED, Compression::SNAPPY, gzip, zstd] {
        for rows_per_group in [7, 100, usize::MAX] {
            let made = Generated {
                columns: vec![
                    ("required int64 movieId", wholes(items.iter().copied())),
                    ("optional double Rating", floats(values.iter().copied())),
                    ("optional int32 who", wholes(users.iter().copied())),
                ],
                rows_per_group,
                compression,
            };
            let (_folder, path) = made.file();
            let found = seen(&read_ratings(&path, &format).unwrap());
            assert_eq!(found, expected, "{compression} {rows_per_group}");
            // recognised by its content as well as by its name
            let other = path.with_extension("dat");
            fs::rename(&path, &other).unwrap();
            assert_eq!(seen(&read_ratings(&other, &format).unwrap()), expected);
        }
    }
}

#[test]
fn every_type_reads_as_its_text_would() {
    let made = Generated::of(vec![
        (
            "required binary user (STRING)",
            texts(&["ann", "ann", "b,\"ob", "ann"]),
        ),
        (
            "optional binary target (UTF8)",
            texts(&["1.5", " 2 ", "-3e1", "4"]),
        ),
        (
            "optional float f",
            floats([0.1, 1e30, f64::from(f32::MIN_POSITIVE), 16_777_217.0]),
        ),
        (
            "required int64 u (INTEGER(64,false))",
            wholes([-1, 0, 1, i64::MIN]),
        ),
        (
            "required int32 i (INTEGER(8,true))",
            wholes([-1, 0, 127, -128]),
        ),
        (
            "optional boolean b",
            Cells::Boolean([true, false, false, true].map(Some).into()),
        ),
    ]);
    let (_folder, path) = made.file();
    let table = read_samples(&path, &SampleColumns::default()).unwrap();
    assert_eq!(table.features(), ["f", "u", "i", "b"]);
    let users = table.users().expose();
    assert_eq!((users[0].id(), users[1].id()), ("ann", "b,\"ob"));
    let ann: Vec<_> = users[0].rows(4).collect();
    let most = u64::MAX as f32;
    assert_eq!(ann[0], (&[0.1, most, -1.0, 1.0][..], 1.5));
    assert_eq!(ann[1], (&[1e30, 0.0, 0.0, 0.0][..], 2.0));
    assert_eq!(ann[2], (&[16_777_216.0, most / 2.0, -128.0, 1.0][..], 4.0));
    let bob: Vec<_> = users[1].rows(4).collect();
    assert_eq!(bob, [(&[f32::MIN_POSITIVE, 1.0, 127.0, 0.0][..], -30.0)]);
}

/// The same for a csv file, for comparison.
fn samples(parquet: &Generated, lines: &[&str]) -> [Result<SampleTable>; 2] {
    let (folder, path) = parquet.file();
    let text = folder.path().join("t.parquet.csv");
    csv(&text, "user,x,y", lines.iter().map(ToString::to_string));
    let columns = SampleColumns::default();
    [read_samples(&path, &columns), read_samples(&text, &columns)]
}

fn malformed<T>(result: Result<T>) -> (usize, usize, Expected) {
    match result.err().unwrap() {
        Error::Malformed {
            line,
            column,
            expected,
            ..
        } => (line, column, expected),
        other => panic!("{other}"),
    }
}

#[test]
fn a_null_is_an_empty_field() {
    let made = |users: [Option<&'static str>; 3], x: [Option<f64>; 3]| Generated {
        rows_per_group: 2,
        ..Generated::of(vec![
            ("optional binary user (STRING)", Cells::Text(users.into())),
            ("optional double x", Cells::Float(x.into())),
            ("required int64 y", wholes([1, 2, 3])),
        ])
    };
    let [a, b] = [Some("a"), Some("b")];
    let x = [Some(0.5), Some(1.5), None];
    let [parquet, text] = samples(&made([a, b, a], x), &["a,0.5,1", "b,1.5,2", "a,,3"]);
    // in both cases the row is left out and counted
    for table in [parquet.unwrap(), text.unwrap()] {
        assert_eq!(*table.n_not_finite().expose(), 1);
        let users = table.users().expose();
        assert_eq!(
            users
                .iter()
                .map(|user| user.rows(1).count())
                .collect::<Vec<_>>(),
            [1, 1]
        );
    }
    let x = [Some(0.5), Some(1.5), Some(2.5)];
    let [parquet, text] = samples(&made([a, None, a], x), &["a,0.5,1", ",1.5,2", "a,2.5,3"]);
    let id = Expected::Id(ColumnRole::User);
    assert_eq!(malformed(parquet), (2, 1, id));
    // a header takes a line
    assert_eq!(malformed(text), (3, 1, id));
    // unused columns may contain anything
    let only_y = SampleColumns {
        features: Some(vec!["y".to_owned()]),
        without_target: true,
        ..SampleColumns::default()
    };
    let (_folder, path) = made([a, b, a], [None; 3]).file();
    let table = read_samples(&path, &only_y).unwrap();
    assert_eq!(table.users().expose()[0].rows(1).count(), 2);
}

#[test]
fn columns_are_held_to_what_they_are_for() {
    let read = |columns: Vec<(&'static str, Cells)>| {
        let (_folder, path) = Generated::of(columns).file();
        read_ratings(&path, &RatingsFormat::default())
    };
    let two = || wholes([1, 2]);
    let good = || {
        vec![
            ("required int64 user", two()),
            ("required int64 item", two()),
            ("required int64 rating", two()),
        ]
    };
    assert!(read(good()).is_ok());
    let with = |at: usize, declared: &'static str, cells: Cells| {
        let mut columns = good();
        columns[at] = (declared, cells);
        read(columns)
    };
    let ids = Expected::IdColumn(ColumnRole::User);
    let found = malformed(with(0, "required double user", floats([1.0, 2.0])));
    assert_eq!(found, (1, 1, ids));
    let yes = Cells::Boolean(vec![Some(true); 2]);
    assert_eq!(malformed(with(0, "required boolean user", yes)).2, ids);
    for declared in [
        "required int32 rating (DATE)",
        "required int64 rating (TIMESTAMP(MILLIS,true))",
        "required int32 rating (DECIMAL(5,2))",
    ] {
        let found = malformed(with(2, declared, two()));
        assert_eq!(found, (1, 3, Expected::PlainColumn), "{declared}");
        // it may be present if it is not read
        let mut columns = good();
        columns.push((declared.replace("rating", "other").leak(), two()));
        assert!(read(columns).is_ok(), "{declared}");
    }
    let words = || texts(&["4", "four"]);
    let found = malformed(with(2, "required binary rating (STRING)", words()));
    assert_eq!(found, (2, 3, Expected::Number(ColumnRole::Rating)));
    let missing = with(2, "required int64 stars", two()).err().unwrap();
    let said = "t.parquet:1: rating column not found: looked for rating; the header has: user, item, stars";
    assert!(missing.to_string().contains(said), "{missing}");
    // a number is a valid column name
    let found = with(2, "required int64 5", two()).err().unwrap();
    assert!(matches!(found, Error::UnknownColumn { .. }), "{found}");
}

#[test]
fn the_other_tables_are_read_too() {
    let items = Generated::of(vec![
        ("required binary item (STRING)", texts(&["7", "8", "7"])),
        (
            "optional binary title (STRING)",
            Cells::Text(vec![Some("A (1990)"), None, None]),
        ),
        (
            "optional binary genres (STRING)",
            texts(&["War|Art", "", "Noir"]),
        ),
    ]);
    let (_folder, path) = items.file();
    let catalogue = read_catalogue(&path).unwrap();
    assert_eq!(catalogue.ids(), ["7", "8"]);
    assert_eq!(
        (catalogue.title(0), catalogue.title(1)),
        (Some("A (1990)"), None)
    );
    let attributes = read_item_attributes(&path).unwrap();
    assert_eq!(attributes[0].genres, ["War", "Art"]);
    assert_eq!((attributes[0].year, attributes[1].year), (Some(1990), None));
    let names = read_item_table(&path, &["genres"]).unwrap();
    assert_eq!(names.names("7", 0), ["War", "Art"]);
    let own = Generated::of(vec![
        ("required int64 item", wholes([8, 9])),
        ("required int64 rating", wholes([5, 1])),
    ]);
    let (_folder, path) = own.file();
    let history = read_history(
        &path,
        &RatingsFormat::default(),
        &ItemCatalogue::from_ids(["7", "8"]),
    )
    .unwrap();
    assert_eq!(history.records(), [(1, 5.0)]);
    assert_eq!(history.n_unknown_items(), 1);
}

/// Number of decoded values that are held.
fn n_held(groups: &RowGroups) -> usize {
    let held = groups.group.iter().map(|column| match column {
        Column::Int64(cells, _) => cells.n_held(),
        Column::Double(cells) => cells.n_held(),
        _ => panic!("not in these files"),
    });
    held.sum()
}

#[test]
fn row_groups_are_read_one_after_the_other_and_in_batches() {
    const N_ROWS: usize = 30_000;
    for rows_per_group in [50, N_ROWS] {
        let made = Generated {
            columns: vec![
                ("required int64 a", wholes(0..N_ROWS as i64)),
                (
                    "optional double b",
                    floats((0..N_ROWS).map(|at| at as f64 / 8.0)),
                ),
            ],
            rows_per_group,
            compression: Compression::UNCOMPRESSED,
        };
        let (_folder, path) = made.file();
        let mut groups = RowGroups::open(File::open(&path).unwrap(), "t".to_owned()).unwrap();
        groups.read_only(vec![0, 1]).unwrap();
        let (mut fields, mut most) = (Vec::new(), 0);
        while groups.advance(&mut fields).unwrap() {
            let at = groups.number() - 1;
            let text = std::str::from_utf8(groups.row()).unwrap();
            assert_eq!(text, format!("{at}{}", at as f64 / 8.0));
            most = most.max(n_held(&groups));
        }
        assert_eq!(groups.number(), N_ROWS);
        assert!(most > 0 && most <= 3 * BATCH.min(rows_per_group), "{most}");
    }
}

#[test]
fn damage_is_met_where_it_stands_and_not_before() {
    let made = Generated {
        columns: vec![("required int64 a", wholes(0..1000))],
        rows_per_group: 100,
        compression: Compression::SNAPPY,
    };
    let (_folder, path) = made.file();
    let intact = RowGroups::open(File::open(&path).unwrap(), "t".to_owned()).unwrap();
    let (start, length) = intact.file.metadata().row_group(6).column(0).byte_range();
    let (start, length) = (start as usize, length as usize);
    let mut bytes = fs::read(&path).unwrap();
    bytes[start..start + length].fill(0xff);
    fs::write(&path, bytes).unwrap();
    let mut groups = RowGroups::open(File::open(&path).unwrap(), "t".to_owned()).unwrap();
    groups.read_only(vec![0]).unwrap();
    let mut fields = Vec::new();
    for _ in 0..600 {
        assert!(groups.advance(&mut fields).unwrap());
    }
    let found = groups.advance(&mut fields).err().unwrap();
    let Error::Parquet { source, .. } = found else {
        panic!("{found}");
    };
    assert_eq!(source.to_string(), "row group 7 cannot be decoded");
}

#[test]
fn what_is_not_parquet_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let read = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        read_ratings(&path, &RatingsFormat::default())
            .err()
            .unwrap()
    };
    let (_made, path) = Generated::of(vec![("required int64 user", wholes(0..9))]).file();
    let whole = fs::read(path).unwrap();
    for (name, bytes) in [
        ("text.PARQUET", &b"user,item,rating\na,b,1\n"[..]),
        ("empty.parquet", b""),
        ("head.dat", b"PAR1"),
        ("cut.dat", &whole[..whole.len() - 9]),
    ] {
        let found = read(name, bytes);
        assert!(matches!(found, Error::Parquet { .. }), "{found}");
    }
    let stream = read_ratings_from(&whole[..], "pipe", &RatingsFormat::default(), None);
    let found = stream.err().unwrap();
    assert_eq!(found.to_string(), "pipe: cannot be read as Parquet");
    assert!(
        is_unread(&Compression::LZ4_RAW) && is_unread(&Compression::BROTLI(BrotliLevel::default()))
    );
}
