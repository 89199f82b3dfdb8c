//! What a LEAF file may decide, and what is refused.

use super::*;
use crate::{Error, Expected};

/// Reads rows of `n_features` numbers with one label.
fn read(n_features: usize, text: &str) -> Result<SampleTable> {
    let rows = LeafRows {
        n_features,
        label: None,
    };
    read_leaf_from(text.as_bytes(), "t.json", rows)
}

fn whole(users: &str, counts: &str, data: &str) -> String {
    format!(r#"{{"users": {users}, "num_samples": {counts}, "user_data": {data}}}"#)
}

#[test]
fn users_come_in_the_order_of_their_list_whatever_the_order_of_keys() {
    let text = r#"{"user_data": {"b": {"y": [1.5, 2], "x": [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]},
        "a": {"x": [], "y": [], "note": {"z": [null]}}}, "hierarchies": [["r", 1], []],
        "num_samples": [0, 2], "users": ["a", "b"]}"#;
    let table = read(4, text).unwrap();
    let users = table.users().expose();
    assert_eq!((users[0].id(), users[0].rows(4).len()), ("a", 0));
    let rows: Vec<_> = users[1].rows(4).collect();
    assert_eq!(rows[1], (&[5.0, 6.0, 7.0, 8.0][..], 2.0));
    assert_eq!(
        (table.order().expose().as_slice(), table.target()),
        (&[1, 1][..], Some("y"))
    );
    assert_eq!(table.features(), ["x0", "x1", "x2", "x3"]);
}

#[test]
fn rows_with_what_is_no_number_are_left_out_and_their_user_stays() {
    let data = r#"{"a": {"x": [NaN, 1, 2, 1e60, 4], "y": [0, null, -Infinity, 1, 1]}}"#;
    let table = read(1, &whole(r#"["a"]"#, "[5]", data)).unwrap();
    assert_eq!(*table.n_not_finite().expose(), 4);
    let rows: Vec<_> = table.users().expose()[0].rows(1).collect();
    assert_eq!(rows, [(&[4.0][..], 1.0)]);
}

/// How many rows of each user were kept, the rows left out and the features.
fn shape(n_features: usize, label: Option<usize>, text: &str) -> (Vec<usize>, usize, usize) {
    let rows = LeafRows { n_features, label };
    let table = read_leaf_from(text.as_bytes(), "t.json", rows).unwrap();
    let users = table.users().expose().iter();
    let kept = users.map(|user| user.rows(n_features).len()).collect();
    let n_left_out = *table.n_not_finite().expose();
    (kept, n_left_out, table.features().len())
}

#[test]
fn the_shape_is_the_declared_one_whatever_the_rows_are() {
    assert_eq!(shape(3, None, &whole("[]", "[]", "{}")), (vec![], 0, 3));
    let no_row = whole(r#"["a"]"#, "[0]", r#"{"a": {"x": [], "y": []}}"#);
    assert_eq!(shape(3, None, &no_row), (vec![0], 0, 3));
    // the first user's first row decides nothing, nor do rows without a number
    let data = r#"{"a": {"x": [[1], [1, 2], [], 7, [[3], [4]], [1, 2, 3]], "y": [1, 2, 3, 4, 5, 6]},
        "b": {"x": [[5, 6]], "y": [7]}}"#;
    let ragged = whole(r#"["a", "b"]"#, "[6, 1]", data);
    assert_eq!(shape(2, None, &ragged), (vec![2, 1], 4, 2));
    assert_eq!(shape(1, None, &ragged), (vec![2, 0], 5, 1));
    let table = read(2, &ragged).unwrap();
    let rows: Vec<_> = table.users().expose()[0].rows(2).collect();
    assert_eq!(rows, [(&[1.0, 2.0][..], 2.0), (&[3.0, 4.0][..], 5.0)]);
}

#[test]
fn rows_and_labels_that_do_not_pair_up_are_left_out_with_their_user_known() {
    let data = r#"{"a": {"x": [[1], [2]], "y": [1]}, "b": {"x": [[1]], "y": [1, 2, 3]},
        "c": {"x": [[1]], "y": [1]}}"#;
    let text = whole(r#"["a", "b", "c"]"#, "[2, 1, 1]", data);
    assert_eq!(shape(1, None, &text), (vec![0, 0, 1], 3, 1));
}

#[test]
fn one_of_several_labels_is_read_where_its_place_is_given() {
    let data = r#"{"a": {"x": [[1], [2], [3]], "y": [[0, 7], [1, 8], []]}}"#;
    let text = whole(r#"["a"]"#, "[3]", data);
    let labels = |label| {
        let n_features = 1;
        let rows = LeafRows { n_features, label };
        let table = read_leaf_from(text.as_bytes(), "t.json", rows).unwrap();
        let users = table.users().expose();
        users[0].rows(1).map(|row| row.1).collect::<Vec<_>>()
    };
    assert_eq!(labels(Some(1)), [7.0, 8.0]);
    assert!(labels(None).is_empty() && labels(Some(2)).is_empty());
    assert_eq!(shape(1, Some(2), &text), (vec![0], 3, 1));
}

#[test]
fn a_width_that_no_model_has_is_refused() {
    for n_features in [0, (1 << 16) + 1] {
        let refused = read(n_features, &whole("[]", "[]", "{}"));
        assert!(matches!(refused, Err(Error::Param(_))), "{n_features}");
    }
}

#[test]
fn malformed_files_are_refused_by_kind_without_showing_them() {
    let good = r#"{"a": {"x": [[1, 2]], "y": [3]}}"#;
    let expected = |text: &str| match read(2, text) {
        Err(Error::Malformed { expected, .. }) => expected,
        Err(other) => panic!("{text}: {other}"),
        Ok(_) => panic!("{text}"),
    };
    assert!(read(2, &whole(r#"["a"]"#, "[1]", good)).is_ok());
    for (users, counts, kind) in [
        (r#"["a"]"#, "[2]", Expected::Counts),
        (r#"["a"]"#, "[1, 1]", Expected::Counts),
        (r#"["a"]"#, "[]", Expected::Counts),
        (r#"["a", "secret"]"#, "[1, 1]", Expected::DataOfUser),
        ("[]", "[]", Expected::ListedUser),
        (r#"["a", "a"]"#, "[1, 1]", Expected::NewUser),
    ] {
        assert_eq!(
            expected(&whole(users, counts, good)),
            kind,
            "{users} {counts}"
        );
    }
    let twice = r#"{"a": {"x": [1], "y": [3]}, "a": {"x": [1], "y": [3]}}"#;
    assert_eq!(
        expected(&whole(r#"["a"]"#, "[1]", twice)),
        Expected::NewUser
    );
    for data in [
        r#"{"a": {"x": [["secret"]], "y": [3]}}"#,
        r#"{"a": {"x": [[true]], "y": [3]}}"#,
        r#"{"a": {"x": [[1]], "y": ["3"]}}"#,
        r#"{"a": {"x": [[1]]}}"#,
        r#"{"a": {"x": [[1]], "x": [[1]], "y": [1]}}"#,
        r#"{"a": [1]}"#,
        "[]",
        r#"{"a": {"x": [[1]], "y": [1]}"#,
    ] {
        let Expected::Json(_) = expected(&whole(r#"["a"]"#, "[1]", data)) else {
            panic!("{data}");
        };
    }
    for text in [
        "",
        "[]",
        "{}",
        r#"{"users": ["a"]}"#,
        "{\"users\": [], \"users\": []}",
    ] {
        assert!(matches!(expected(text), Expected::Json(_)), "{text}");
    }
    let after = whole("[]", "[]", "{}") + "1";
    assert_eq!(expected(&after), Expected::Json("the end of the file"));
    let shown = read(2, &whole(r#"["a", "secret"]"#, "[1, 1]", good))
        .err()
        .unwrap();
    assert!(!shown.to_string().contains("secret"), "{shown}");
}
