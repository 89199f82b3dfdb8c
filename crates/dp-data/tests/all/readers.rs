//! Every format and every kind of malformed file, with files generated in the tests.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use dp_core::Interactions;
use dp_data::{
    CatalogueSource, ColumnRole, Error, Expected, ItemCatalogue, Layout, Ratings, RatingsColumns,
    RatingsFormat, Result, read_catalogue, read_history, read_history_from, read_ratings,
    read_ratings_from, read_ratings_with_catalogue,
};
use tempfile::TempDir;

fn folder_with(name: &str, bytes: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, bytes).unwrap();
    (folder, path)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn auto(text: &str) -> Result<Ratings> {
    read_ratings_from(text.as_bytes(), "r.csv", &RatingsFormat::default(), None)
}

fn message<T>(result: Result<T>) -> String {
    result.err().expect("reading must fail").to_string()
}

/// Records with their ids, in user order.
fn records(ratings: &Ratings) -> Vec<(String, String, f32)> {
    let users = ratings.user_ids().expose();
    let items = ratings.catalogue().ids();
    let table: &Interactions = ratings.interactions().expose();
    let rows = users.iter().zip(table.users());
    rows.flat_map(|(user, row)| {
        row.iter()
            .map(|(item, value)| (user.clone(), items[item as usize].clone(), value))
    })
    .collect()
}

fn expected_records() -> Vec<(String, String, f32)> {
    [("2", "10", 3.5), ("2", "30", 1.0), ("1", "9", 5.0)]
        .map(|(user, item, value)| (user.to_owned(), item.to_owned(), value))
        .into()
}

const CSV: &str = "userId,movieId,rating,timestamp\n2,30,1,0\n2,10,3.5,0\n1,9,5,0\n";

#[test]
fn every_layout_gives_the_same_table() {
    let texts = [
        CSV.to_owned(),
        "2::30::1::0\n2::10::3.5::0\n1::9::5::0\n".to_owned(),
        "2::30::1\n2::10::3.5\n1::9::5".to_owned(),
        "2\t30\t1\t0\n2\t10\t3.5\t0\n1\t9\t5\t0\n".to_owned(),
        CSV.replace(',', "\t"),
        CSV.replace('\n', "\r\n"),
        format!("\u{feff}{CSV}\n\r\n  \n"),
        "rating,Item_ID,x,USER\n1,30,,2\n3.5,10,,2\n\n5,9,,1\n".to_owned(),
        CSV.replace(',', ";"),
        CSV.replace(',', ";").replace("3.5", "3,5"),
        "\"user\";\"item\";\"rating\"\n\"2\";\"30\";\"1,0\"\n2;\"10\"; 3,5 \n\"1\";9;5\n"
            .to_owned(),
        "\"user\",\"item\",\"rating\"\n\"2\",\"30\",\"1\"\n2,\"10\", 3.5 \n\"1\",9,5\n".to_owned(),
    ];
    for text in texts {
        let ratings = auto(&text).unwrap();
        assert_eq!(records(&ratings), expected_records(), "{text}");
        assert_eq!(ratings.catalogue().ids(), ["9", "10", "30"]);
        assert_eq!(ratings.catalogue_source(), CatalogueSource::FromRatings);
        assert_eq!(ratings.summary().expose().n_read, 3);
    }
}

#[test]
fn gzip_needs_no_extension_and_the_extension_no_gzip() {
    for (name, bytes) in [
        ("ratings.csv.gz", gzip(CSV.as_bytes())),
        ("ratings.csv", gzip(CSV.as_bytes())),
        ("ratings.gz", CSV.as_bytes().to_vec()),
    ] {
        let (_folder, path) = folder_with(name, &bytes);
        let ratings = read_ratings(&path, &RatingsFormat::default()).unwrap();
        assert_eq!(records(&ratings), expected_records(), "{name}");
    }
}

#[test]
fn layout_and_columns_can_be_given() {
    let named = RatingsColumns {
        user: Some("who".into()),
        item: Some("what".into()),
        rating: Some("stars".into()),
    };
    let format = RatingsFormat::default().with_columns(named);
    let text = "user,who,what,stars\nx,2,30,1\nx,2,10,3.5\ny,1,9,5\n";
    let ratings = read_ratings_from(text.as_bytes(), "r", &format, None).unwrap();
    assert_eq!(records(&ratings), expected_records());
}

#[test]
fn columns_of_a_file_without_header_are_named_in_order() {
    let names = |names: &str| {
        RatingsFormat::default().with_names(names.split(',').map(str::to_owned).collect())
    };
    let own = RatingsColumns {
        user: Some("who".into()),
        ..RatingsColumns::default()
    };
    let lines = "0,2,30,1\n0,2,10,3.5\n1,1,9,5\n";
    for (text, format) in [
        (lines.to_owned(), names("time,user,movieId,rating")),
        (
            lines.to_owned(),
            names("user,who,item,rating").with_columns(own),
        ),
        (
            lines.replace(',', ";").replace("3.5", "3,5"),
            names("t,user,item,rating"),
        ),
        (lines.replace(',', "\t"), names("t,user,item,rating")),
        (lines.replace(',', "::"), names("t,user,item,rating")),
    ] {
        let ratings = read_ratings_from(text.as_bytes(), "r", &format, None).unwrap();
        assert_eq!(records(&ratings), expected_records(), "{text}");
    }
    let read = |text: &str, format: &RatingsFormat| {
        message(read_ratings_from(text.as_bytes(), "r", format, None))
    };
    let three = names("user,item,rating");
    for (text, error) in [
        ("secret,1\n", "r:1:3: expected 3 fields; found 2"),
        ("secret\n", "r:1:2: expected 3 fields; found 1"),
        (
            "USER,item,rating\na,b,1\n",
            "r:1:1: expected a record; found the names of columns",
        ),
        (
            "a,b,1\nc,secret,x\n",
            "r:2:3: expected a number for the rating",
        ),
    ] {
        assert_eq!(read(text, &three), error);
    }
    let found = read("a,b,1\n", &names("user,1,2"));
    assert!(found.contains("item column not found"), "{found}");
}

#[test]
fn pairs_of_user_and_item_need_no_ratings() {
    let pairs = RatingsFormat::default().without_ratings();
    let expected: Vec<_> = (expected_records().into_iter())
        .map(|(user, item, _)| (user, item, 1.0))
        .collect();
    for text in [
        "user,item\n2,30\n2,10\n1,9\n".to_owned(),
        "item;user\n30;2\n10;2\n9;1\n".to_owned(),
        "user\titem\trating\n2\t30\tnan\n2\t10\t\n1\t9\tplayed\n".to_owned(),
        CSV.replace(',', "\t"),
        "2::30::1::0\n2::10::3.5::0\n1::9::5::0\n".to_owned(),
    ] {
        let ratings = read_ratings_from(text.as_bytes(), "r", &pairs, None).unwrap();
        assert_eq!(records(&ratings), expected, "{text}");
    }
    let nameless = pairs
        .clone()
        .with_names(["user", "item"].map(str::to_owned).into());
    let ratings = read_ratings_from("2,30\n2,10\n1,9\n".as_bytes(), "r", &nameless, None);
    assert_eq!(records(&ratings.unwrap()), expected);

    let items = ItemCatalogue::from_ids(["7", "8"]);
    let read = |text: &str| read_history_from(text.as_bytes(), "me", &pairs, &items);
    for text in [
        "item\n8\n9\n",
        "item,rating\n8,\n9,5\n",
        "user,item\nu,8\nu,9\n",
    ] {
        assert_eq!(read(text).unwrap().records(), [(1, 1.0)], "{text}");
    }
    // for many users, a single column is not a table
    let alone = read_ratings_from("item\n8\n".as_bytes(), "r", &pairs, None);
    assert!(message(alone).contains("expected fields separated by"));
}

#[test]
fn a_given_layout_overrides_what_the_first_line_looks_like() {
    let tab = RatingsFormat::default().with_layout(Layout::Tab);
    let text = "a\tb\tstars\na\tc\t2\n";
    let as_records = read_ratings_from(text.as_bytes(), "r", &tab, None);
    assert_eq!(
        message(as_records),
        "r:1:3: expected a number for the rating"
    );
    let tsv = RatingsFormat::default().with_layout(Layout::Tsv);
    let as_header = read_ratings_from("1\t2\t3\n4\t5\t1\n".as_bytes(), "r", &tsv, None);
    assert_eq!(
        message(as_header),
        "r:1:1: expected a header with column names; found a number"
    );
}

#[test]
fn unusable_values_are_left_out_and_counted() {
    let text = "user,item,rating\na,x,nan\na,y,inf\na,y,1e400\na,x,-Infinity\nb,x,1e39\n\
                b,y,4\nb,y,2\nb,y,NaN\nb,x,1e38\n";
    let ratings = auto(text).unwrap();
    let kept = records(&ratings);
    assert_eq!(kept.len(), 2);
    assert_eq!(kept[0], ("b".into(), "x".into(), 1e38));
    assert_eq!(kept[1], ("b".into(), "y".into(), 2.0));
    let summary = ratings.summary().expose();
    assert_eq!(summary.n_read, 9);
    assert_eq!(summary.dropped.not_finite, 6);
    assert_eq!(summary.dropped.repeated, 1);
    assert_eq!(ratings.user_ids().expose(), &["a", "b"]);
    assert!(ratings.interactions().expose().user(0).is_empty());
}

#[test]
fn a_declared_catalogue_keeps_unseen_items_and_drops_strangers() {
    let catalogue = ItemCatalogue::from_ids(["9", "30", "77"]);
    let (_folder, path) = folder_with("r.csv", format!("{CSV}3,10,4,0\n").as_bytes());
    let ratings = read_ratings_with_catalogue(&path, &RatingsFormat::default(), catalogue).unwrap();
    assert_eq!(ratings.catalogue_source(), CatalogueSource::Declared);
    assert_eq!(ratings.interactions().expose().n_items(), 3);
    let kept: Vec<_> = records(&ratings).into_iter().map(|r| (r.0, r.1)).collect();
    assert_eq!(kept, [("2".into(), "30".into()), ("1".into(), "9".into())]);
    let summary = ratings.summary().expose();
    assert_eq!((summary.n_read, summary.n_outside_catalogue), (4, 2));
    assert_eq!(
        ratings.user_ids().expose(),
        &["2", "1"],
        "a user without records on the catalogue is none"
    );
}

#[test]
fn no_users_records_change_what_is_read_of_the_others() {
    let lines = [
        "a,x,1", "b,x,2", "b,z,nan", "a,y,3", "c,y,4", "b,y,5", "c,y,1",
    ];
    let read = |without: &str| {
        let kept = lines.iter().filter(|line| !line.starts_with(without));
        let body: String = kept.map(|line| format!("{line}\n")).collect();
        let text = format!("user,item,rating\n{body}");
        let catalogue = ItemCatalogue::from_ids(["x", "y", "z"]);
        let format = RatingsFormat::default();
        let ratings = read_ratings_from(text.as_bytes(), "r", &format, Some(catalogue)).unwrap();
        records(&ratings)
    };
    let all = read("nobody");
    for user in ["a", "b", "c"] {
        let others: Vec<_> = all.iter().filter(|r| r.0 != user).cloned().collect();
        assert_eq!(read(user), others);
    }
}

#[test]
fn malformed_lines_are_named_by_place_and_never_quoted() {
    let head = "user,item,rating\n";
    let table = [
        ("secret,x,five\n", "2:3: expected a number for the rating"),
        (
            "a,x,1\n\nsecret,x,\n",
            "4:3: expected a number for the rating",
        ),
        ("a,x,1\r\nsecret,x\r\n", "3:3: expected 3 fields; found 2"),
        ("secret,x,1,9\n", "2:4: expected 3 fields; found 4"),
        (
            ",secret,1\n",
            "2:1: expected an id for the user; the field is empty",
        ),
        (
            "secret,,1\n",
            "2:2: expected an id for the item; the field is empty",
        ),
        (
            "secret,\"x,1\n\"a\",y,2\n",
            "2:2: expected a quoted field that closes before the next separator",
        ),
    ];
    for (body, error) in table {
        let found = message(auto(&format!("{head}{body}")));
        assert_eq!(found, format!("r.csv:{error}"));
        assert!(!found.contains("secret"));
    }
    assert_eq!(
        message(auto("1::2::3\n1::2::secret\n")),
        "r.csv:2:3: expected a number for the rating"
    );
    assert_eq!(
        message(auto("1::2::3::0\n1::2::3\n")),
        "r.csv:2:4: expected 4 fields; found 3"
    );
}

#[test]
fn ids_must_be_utf8_and_unused_columns_need_not() {
    let bad = |body: &[u8]| {
        let bytes = [b"user,item,rating,note\n", body].concat();
        read_ratings_from(bytes.as_slice(), "r", &RatingsFormat::default(), None)
    };
    assert_eq!(
        message(bad(b"\xff,x,1,\n")),
        "r:2:1: expected text in UTF-8"
    );
    assert_eq!(
        message(bad(b"a,x\xc3,1,\n")),
        "r:2:2: expected text in UTF-8"
    );
    assert_eq!(
        message(bad(b"a,x,\xff,\n")),
        "r:2:3: expected a number for the rating"
    );
    assert!(bad(b"a,x,1,\xff\n").is_ok());
    let header = read_ratings_from(
        b"user,it\xffem,rating\n".as_slice(),
        "r",
        &RatingsFormat::default(),
        None,
    );
    assert_eq!(message(header), "r:1:2: expected text in UTF-8");
    let catalogue = Some(ItemCatalogue::from_ids(["x"]));
    let outside = read_ratings_from(
        b"user,item,rating\na,\xff,1\n".as_slice(),
        "r",
        &RatingsFormat::default(),
        catalogue,
    );
    assert_eq!(message(outside), "r:2:2: expected text in UTF-8");
}

#[test]
fn files_without_records_are_empty() {
    for text in [
        "",
        "\n\n",
        "\u{feff}",
        "user,item,rating\n",
        "user,item,rating\r\n\r\n",
    ] {
        assert!(matches!(auto(text), Err(Error::Empty { .. })), "{text:?}");
    }
    assert_eq!(
        message(auto("")),
        "r.csv: expected at least one record; the file holds none"
    );
}

#[test]
fn unknown_columns_are_named_and_a_first_line_is_shown_only_if_it_is_a_header() {
    let of_user = "r.csv:1: user column not found: looked for user, userId, user_id; ";
    let found = message(auto("ann@example.org,x,good\na,b,1\n"));
    assert_eq!(
        found,
        format!(
            "{of_user}the first line has 3 fields and none of the names that were looked for: if it is a record, the file has no header"
        )
    );
    let found = message(auto("who,item,rating\na,b,1\n"));
    assert_eq!(found, format!("{of_user}the header has: who, item, rating"));
    let wide: Vec<String> = (0..25).map(|at| format!("c{at}")).collect();
    let found = message(auto(&format!("rating,{}\n", wide.join(","))));
    assert!(found.ends_with(", c17, c18 and 6 more"), "{found}");
    let named = RatingsColumns {
        rating: Some("Rating".into()),
        ..RatingsColumns::default()
    };
    let format = RatingsFormat::default().with_columns(named);
    let text = "user,item,rating\na,b,1\n";
    let error = read_ratings_from(text.as_bytes(), "r", &format, None)
        .err()
        .unwrap();
    assert!(matches!(
        error,
        Error::UnknownColumn { role: ColumnRole::Rating, ref looked_for, .. } if looked_for == &["Rating"]
    ));
    assert_eq!(
        message(auto("secret,x,4\nb,y,5\n")),
        "r.csv:1:3: expected a header with column names; found a number"
    );
}

#[test]
fn other_separators_are_not_guessed() {
    assert_eq!(
        message(auto("user|item|rating\na|b|1\n")),
        "r.csv:1:1: expected fields separated by `::`, tabs, commas or semicolons"
    );
    let format = RatingsFormat::default().with_layout(Layout::DoubleColon);
    for (text, error) in [
        ("1,2,3\n", "r:1:2: expected 3 or 4 fields; found 1"),
        ("1::2::3::4::5\n", "r:1:5: expected 3 or 4 fields; found 5"),
    ] {
        let found = read_ratings_from(text.as_bytes(), "r", &format, None);
        assert_eq!(message(found), error);
    }
}

#[test]
fn missing_and_unreadable_files_say_why() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none.csv");
    let error = read_ratings(&path, &RatingsFormat::default())
        .err()
        .unwrap();
    assert!(error.to_string().ends_with("none.csv: cannot be opened"));
    assert!(matches!(
        error,
        Error::Open { ref source, .. } if source.kind() == std::io::ErrorKind::NotFound
    ));
    let of_folder = read_ratings(folder.path(), &RatingsFormat::default()).err();
    assert!(matches!(
        of_folder,
        Some(Error::Open { .. } | Error::Read { .. })
    ));
}

#[test]
fn damaged_gzip_is_an_error_wherever_it_breaks() {
    let long: String = (0..20_000).map(|u| format!("{u},{},3\n", u % 97)).collect();
    let whole = gzip(format!("user,item,rating\n{long}").as_bytes());
    let read = |bytes: &[u8]| {
        let (_folder, path) = folder_with("r.csv.gz", bytes);
        read_ratings(&path, &RatingsFormat::default())
    };
    assert!(read(&whole).is_ok());
    for cut in [2, 9, whole.len() / 2, whole.len() - 9, whole.len() - 1] {
        let error = read(&whole[..cut]).err();
        assert!(matches!(error, Some(Error::Gzip { .. })), "cut at {cut}");
    }
    let mut flipped = whole.clone();
    let end = flipped.len() - 6; // inside the checksum
    flipped[end] ^= 1;
    assert!(matches!(read(&flipped).err(), Some(Error::Gzip { .. })));
}

#[test]
fn catalogues_are_read_with_and_without_titles() {
    let titled = "item\ttitle\tyear\n10\t\"Quoted\" Start, The\t1\n9\t\t2\n10\tagain\t3\n";
    for bytes in [titled.as_bytes().to_vec(), gzip(titled.as_bytes())] {
        let (_folder, path) = folder_with("items.tsv", &bytes);
        let items = read_catalogue(&path).unwrap();
        assert_eq!(items.ids(), ["9", "10"]);
        assert_eq!(items.title(0), None);
        assert_eq!(items.title(1), Some("\"Quoted\" Start, The"));
    }
    let read = |bytes: &[u8]| {
        let (_folder, path) = folder_with("items.csv", bytes);
        read_catalogue(&path).unwrap()
    };
    assert_eq!(read(b"movieId\nb\na\n").ids(), ["a", "b"]);
    let quoted = read(b"title,item\n\"A, \"\"B\"\"\",1\n");
    assert_eq!(quoted.title(0), Some("A, \"B\""));
}

#[test]
fn malformed_catalogues_are_named_by_place() {
    let found = |bytes: &[u8]| {
        let (folder, path) = folder_with("i.csv", bytes);
        let prefix = format!("{}/", folder.path().display());
        message(read_catalogue(&path)).replace(&prefix, "")
    };
    assert_eq!(
        found(b"item,title\n1,\xff\n"),
        "i.csv:2:2: expected text in UTF-8"
    );
    assert_eq!(
        found(b"item,title\n,x\n"),
        "i.csv:2:1: expected an id for the item; the field is empty"
    );
    assert_eq!(
        found(b"name,title\n1,x\n"),
        "i.csv:1: item column not found: looked for item, itemId, item_id, movieId, movie_id; \
         the first line has 2 fields and none of the names that were looked for: if it is a record, the file has no header"
    );
    assert_eq!(
        found(b"item\n"),
        "i.csv: expected at least one record; the file holds none"
    );
}

#[test]
fn a_history_is_one_users_merged_ratings() {
    let items = ItemCatalogue::from_ids(["7", "8", "9"]);
    let (_folder, path) = folder_with(
        "me.tsv",
        b"movieId\trating\n9\t5\n8\tnan\n7\t1\n7\t2\n100\t3\n",
    );
    let history = read_history(&path, &RatingsFormat::default(), &items).unwrap();
    assert_eq!(history.records(), [(0, 2.0), (2, 5.0)]);
    assert_eq!(history.n_unknown_items(), 1);
    assert_eq!(history.dropped().not_finite, 1);
    assert_eq!(history.dropped().repeated, 1);
}

#[test]
fn a_history_of_two_users_is_refused() {
    let items = ItemCatalogue::from_ids(["7", "8"]);
    let read =
        |text: &str| read_history_from(text.as_bytes(), "me", &RatingsFormat::default(), &items);
    let same = read("user,item,rating\nu,7,1\nu,8,2\n").unwrap();
    assert_eq!(same.records(), [(0, 1.0), (1, 2.0)]);
    let error = read("user,item,rating\nu,7,1\nv,8,2\n").err().unwrap();
    assert!(matches!(
        error,
        Error::Malformed {
            line: 3,
            column: 1,
            expected: Expected::OneUser,
            ..
        }
    ));
    assert!(read("u::7::1\nv::8::2\n").is_err());
    assert!(matches!(read("item,rating\n"), Err(Error::Empty { .. })));
}

#[test]
fn with_a_declared_catalogue_no_record_is_an_empty_table() {
    let catalogue = ItemCatalogue::from_ids(["a".to_owned(), "b".to_owned()]);
    let format = RatingsFormat::default();
    let text = "user,item,rating\n";
    let ratings = read_ratings_from(text.as_bytes(), "r", &format, Some(catalogue)).unwrap();
    assert_eq!(ratings.interactions().expose().n_users(), 0);
    assert_eq!(ratings.interactions().expose().n_items(), 2);
}

#[test]
fn a_column_is_read_as_one_thing() {
    let text = "user,item,rating\na,b,1\n";
    let read = |columns: RatingsColumns| {
        let format = RatingsFormat::default().with_columns(columns);
        let found = read_ratings_from(text.as_bytes(), "r", &format, None);
        found.err().map(|error| error.to_string())
    };
    let named = |name: &str| Some(name.to_owned());
    let item_for_users = RatingsColumns {
        user: named("item"),
        ..RatingsColumns::default()
    };
    assert_eq!(
        read(item_for_users).as_deref(),
        Some(
            "r: column item was found as both the user and the item column; they must be different columns"
        )
    );
    let item_for_ratings = RatingsColumns {
        rating: named("item"),
        ..RatingsColumns::default()
    };
    assert_eq!(
        read(item_for_ratings).as_deref(),
        Some(
            "r: column item was found as both the item and the rating column; they must be different columns"
        )
    );
    let swapped = RatingsColumns {
        user: named("item"),
        item: named("user"),
        rating: None,
    };
    assert_eq!(read(swapped), None);
}

#[test]
fn two_columns_that_could_be_the_user_must_be_told_apart() {
    let text = "userId,user,item,rating\na,b,c,1\n";
    assert!(message(auto(text)).starts_with("r.csv:1: more than one user column"));
    let named = RatingsColumns {
        user: Some("userId".into()),
        ..RatingsColumns::default()
    };
    let format = RatingsFormat::default().with_columns(named);
    let ratings = read_ratings_from(text.as_bytes(), "r", &format, None).unwrap();
    assert_eq!(ratings.user_ids().expose(), &["a"]);
}
