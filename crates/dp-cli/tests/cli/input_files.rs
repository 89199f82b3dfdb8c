//! Missing and malformed files: exit code 4, with the position and never the content of a record.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::support::{Sandbox, USER, catalogue, ratings, words};

const SECRET: &str = "secret-7f3";

/// Trains on `bytes` with the name of an empty ledger file; checks that nothing is left behind.
#[track_caller]
fn rejects(bytes: impl AsRef<[u8]>, parts: &[&str]) {
    let sandbox = Sandbox::new();
    sandbox.write("ratings.csv", bytes);
    let run = sandbox
        .train(&["--ledger", "l.ledger"])
        .exits(4)
        .says(parts);
    assert!(
        !run.stderr.contains(SECRET),
        "shows a record: {}",
        run.stderr
    );
    assert_eq!(run.stdout, "");
    assert_eq!(
        sandbox.names(),
        ["ratings.csv"],
        "no ledger, no model, no hidden folder"
    );
}

pub(crate) fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// The factors that a repeatable run learns from `ratings.csv`.
#[track_caller]
fn learned_from(text: &str, more: &[&str]) -> Vec<u8> {
    let sandbox = Sandbox::new();
    sandbox.write("ratings.csv", text);
    let args = [&["--insecure-seed", "1", "--dim", "2"], more].concat();
    sandbox.train(&args).exits(0);
    sandbox.read("dp-model/item_factors.safetensors")
}

#[test]
fn semicolons_decimal_commas_and_files_without_header_give_the_same_model() {
    let text = ratings(40, 25, 10).replace(",4\n", ",3.5\n");
    let expected = learned_from(&text, &[]);
    let semicolons = text.replace(',', ";").replace("3.5", "3,5");
    assert!(semicolons.contains(";3,5\n"));
    let headless = |text: &str| text.split_once('\n').unwrap().1.to_owned();
    let header = ["--header", "user,item,rating"].as_slice();
    for (text, args) in [
        (semicolons.clone(), [].as_slice()),
        (headless(&semicolons), header),
        (headless(&text), header),
        (headless(&text).replace(',', "\t"), header),
        (
            headless(&text),
            &[
                "--header",
                "who,what,stars",
                "--user-col",
                "who",
                "--item-col",
                "what",
                "--rating-col",
                "stars",
            ],
        ),
    ] {
        assert!(learned_from(&text, args) == expected, "{}", &text[..60]);
    }
}

#[test]
fn implicit_feedback_reads_pairs_of_user_and_item() {
    let text = ratings(40, 25, 10);
    let (n_users, implicit) = (40, words("--feedback implicit --split users"));
    let expected = learned_from(&text, &implicit);
    let lines = text.lines().map(|line| line.rsplit_once(',').unwrap().0);
    let pairs: String = lines.flat_map(|line| [line, "\n"]).collect();
    assert!(learned_from(&pairs, &implicit) == expected);

    let sandbox = Sandbox::new();
    sandbox.write("ratings.csv", &pairs);
    let json = [&implicit[..], &["--json", "--show-internal"]].concat();
    let json = sandbox.train(&json).exits(0).json();
    assert_eq!(json["internal"]["n_users"], n_users);
    let evaluate = words("evaluate ratings.csv --model dp-model --show-internal");
    sandbox.dp(&evaluate).exits(0);
    // one user's own items need neither ratings nor a column of users
    let recommend = words("recommend --model dp-model --history me.csv --json");
    let of = |own: &str| {
        sandbox.write("me.csv", own);
        sandbox.dp(&recommend).exits(0).json()
    };
    let own = of("item\nitem-3\nitem-4\n");
    assert_eq!(own["n_history"], 2);
    assert_eq!(own, of("item,rating\nitem-3,1\nitem-4,1\n"));
}

#[test]
fn a_missing_file_is_named() {
    let sandbox = Sandbox::new();
    let missing = ["ratings.csv: cannot be opened", "No such file"];
    sandbox
        .train(&["--ledger", "l.ledger"])
        .exits(4)
        .says(&missing);
    assert!(sandbox.names().is_empty());
}

#[test]
fn a_folder_is_no_file_of_ratings() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("ratings.csv")).unwrap();
    sandbox
        .train(&[])
        .exits(4)
        .says(&["ratings.csv: cannot be read", "directory"]);
}

#[test]
fn gzip_that_was_cut_short_or_damaged_is_told() {
    const DAMAGED: &str = "ratings.csv: the gzip data is damaged or cut short";
    let whole = gzip(&ratings(40, 25, 10));
    rejects(&whole[..whole.len() / 2], &[DAMAGED]);
    rejects(&whole[..2], &[DAMAGED]);
    let flip = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        bytes
    };
    rejects(flip(whole.len() - 8), &[DAMAGED]); // in the checksum
    // in the middle, the error depends on the changed bytes, before the checksum is reached
    rejects(flip(whole.len() / 2), &["error: ratings.csv:"]);

    let sandbox = Sandbox::new();
    sandbox.write("ratings.csv", &whole);
    sandbox.train(&[]).exits(0);
}

#[test]
fn a_wrong_number_of_columns_is_told_with_its_place() {
    let line = format!("{SECRET},item-1");
    rejects(
        format!("user,item,rating\nann,item-1,3\n{line}\n"),
        &["ratings.csv:3:3: expected 3 fields; found 2"],
    );
    rejects(
        format!("user,item,rating\n{line},4,5,6\n"),
        &["ratings.csv:2:4: expected 3 fields; found 5"],
    );
}

#[test]
fn a_rating_that_is_no_number_is_told_with_its_place() {
    rejects(
        format!("user,item,rating\nann,item-1,3\nbob,item-1,{SECRET}\n"),
        &["ratings.csv:3:3: expected a number for the rating"],
    );
    rejects(
        format!("rating,user,item\n3,ann,item-1\n{SECRET},bob,item-1\n"),
        &["ratings.csv:3:1: expected a number for the rating"],
    );
}

#[test]
fn an_empty_id_and_an_open_quote_are_told_with_their_place() {
    rejects(
        format!("user,item,rating\n,{SECRET},3\n"),
        &["ratings.csv:2:1: expected an id for the user"],
    );
    rejects(
        format!("user,item,rating\n{SECRET},\"x,3\n"),
        &["ratings.csv:2:2: expected a quoted field that closes"],
    );
}

#[test]
fn a_file_without_ratings_is_refused() {
    rejects("", &["ratings.csv: expected at least one record"]);
    rejects("\n  \n", &["ratings.csv: expected at least one record"]);
    rejects(
        "user,item,rating\n",
        &["ratings.csv: expected at least one record"],
    );
}

#[test]
fn with_a_declared_catalogue_a_header_alone_is_a_data_set_without_users() {
    let sandbox = Sandbox::new();
    sandbox.write("ratings.csv", "user,item,rating\n");
    sandbox.write("items.csv", catalogue(5));
    let run = sandbox
        .train(&["--items", "items.csv", "--json", "--show-internal"])
        .exits(0);
    assert_eq!(run.json()["internal"]["n_users"], 0);
    sandbox.dp(&["verify", "dp-model"]).exits(0);
}

#[test]
fn unknown_column_names_are_told_with_what_was_looked_for() {
    rejects(
        "who,item,rating\nann,item-1,3\n",
        &[
            "ratings.csv:1: user column not found",
            "userId",
            "hint: ",
            "--user-col",
        ],
    );
    let sandbox = Sandbox::with_ratings();
    sandbox
        .train(&["--rating-col", "stars"])
        .exits(4)
        .says(&["rating column not found: looked for stars"]);
    sandbox.write(
        "ratings.csv",
        ratings(40, 25, 10).replace("user,item,rating", "who,what,stars"),
    );
    let columns = words("--user-col who --item-col what --rating-col stars");
    sandbox.train(&columns).exits(0);
}

#[test]
fn a_file_without_header_does_not_show_its_first_record() {
    rejects(
        format!("{SECRET},item-1,3\n"),
        &["ratings.csv:1:3: expected a header"],
    );
    rejects(
        format!("{SECRET} item-1 3\n"),
        &["ratings.csv:1:1: expected fields separated by"],
    );
}

#[test]
fn a_bad_catalogue_is_refused_like_bad_ratings() {
    let sandbox = Sandbox::with_ratings();
    let train = || {
        sandbox
            .train(&["--items", "items.csv", "--ledger", "l.ledger"])
            .exits(4)
    };
    train().says(&["items.csv: cannot be opened"]);
    for (text, part) in [
        ("", "items.csv: expected at least one record"),
        ("item,title\n", "items.csv: expected at least one record"),
        ("name\nx\n", "items.csv:1: item column not found"),
        (
            "item,title\na\n",
            "items.csv:2:2: expected 2 fields; found 1",
        ),
    ] {
        sandbox.write("items.csv", text);
        let run = train().says(&[part]);
        // its columns have fixed names
        assert!(!run.stderr.contains("give it with"), "{}", run.stderr);
        assert!(!run.stderr.contains("names its columns"), "{}", run.stderr);
    }
    sandbox.write("items.csv", "item,item_id\na,b\n");
    train().says(&[
        "items.csv:1: more than one item column",
        "rename the column in the header of this file; --item-col names a column of the ratings, not of this table of items",
    ]);
    assert_eq!(sandbox.names(), ["items.csv", "ratings.csv"]);
}

#[test]
fn a_range_in_another_notation_is_told_how_to_be_written() {
    let sandbox = Sandbox::with_ratings();
    let run = sandbox.train(&["--rating-range", "1-5"]);
    run.exits(2)
        .says(&["numbers separated by commas, as in 1,5"]);
}

#[test]
fn every_documented_layout_is_read() {
    let header_less = |separator: &str| {
        ratings(40, 25, 10)
            .lines()
            .skip(1)
            .map(|line| line.replace(',', separator) + separator + "978300760\n")
            .collect::<String>()
            // ids of MovieLens are numbers
            .replace(|c: char| c.is_alphabetic() || c == '-', "")
    };
    let with_header = ratings(40, 25, 10);
    for text in [
        header_less("::"),
        header_less("\t"),
        with_header.replace(',', "\t"),
        with_header.replace('\n', "\r\n"),
        format!("\u{feff}{with_header}"),
    ] {
        let sandbox = Sandbox::new();
        sandbox.write("ratings.csv", &text);
        let run = sandbox.train(&["--json", "--show-internal"]).exits(0);
        assert_eq!(run.json()["internal"]["n_ratings"], 400);
        assert_eq!(run.json()["n_items"], 25);
        assert!(!run.stdout.contains(USER));
        let is_unnamed = !text.contains("rating");
        let warns = run
            .stderr
            .contains("has no header and is read as a file of MovieLens");
        assert_eq!(warns, is_unnamed, "{}", run.stderr);
        let certificate = sandbox.text("dp-model/certificate.json");
        let column = if is_unnamed { "`1`" } else { "`user`" };
        assert!(
            certificate.contains(&format!("a value of the column {column}")),
            "{certificate}"
        );
    }
    // in another file the first column might not be the user
    for text in ["it1\tus1\t3\t978300760\n", "1\t2\t3\n", "a::b::3::0\n"] {
        let sandbox = Sandbox::new();
        sandbox.write("ratings.csv", text);
        sandbox
            .train(&[])
            .exits(4)
            .says(&["--header user,item,rating"]);
    }
}
