//! How users benefit.

use super::{N_ROWS, N_USERS, figure, personalize, samples, sandbox};
use crate::support::{Sandbox, USER, words};

#[test]
fn few_rows_of_many_users_gain_from_the_shared_subspace() {
    let sandbox = sandbox();
    let args = words("--insecure-seed 3 --held-out-users 0.2 --json --show-internal --max-rows 5");
    let json = personalize(&sandbox, &args).exits(0).json();
    assert_eq!((&json["n_features"], &json["rank"]), (&6.into(), &1.into()));
    for users in ["trained_on", "held_out"] {
        let rmse = |method: &str| figure(&json, users, method);
        // the label noise has standard deviation .03
        assert!(rmse("non-private") < 0.15, "{}", rmse("non-private"));
        assert!(rmse("private") < 0.4, "{}", rmse("private"));
        for other in [
            "own-mean",
            "own-data",
            "own-ridge",
            "random-subspace",
            "single-model",
        ] {
            assert!(rmse("private") < 0.7 * rmse(other), "{users} {other}");
        }
    }
    assert_eq!(json["released"]["private"], false);
    assert_eq!(json["internal"]["n_rows"], N_USERS * N_ROWS);
}

#[test]
fn users_may_have_coefficients_of_their_own_beside_the_subspace() {
    let sandbox = Sandbox::new();
    // `2 s_u a`, and 1.5 times one of b to f, depending on the user
    let mut text = String::new();
    for line in samples(N_USERS).lines() {
        let cells: Vec<&str> = line.split(',').collect();
        let (Some(user), Some(Ok(a))) = (
            cells[0].strip_prefix(USER),
            cells.get(2).map(|x| x.parse::<f64>()),
        ) else {
            text.push_str(&format!("{line}\n"));
            continue;
        };
        let number: usize = user.parse().unwrap();
        let slope = if number.is_multiple_of(2) { 2.0 } else { -2.0 };
        let own: f64 = cells[3 + number % 5].parse().unwrap();
        let y = slope * a + 1.5 * own;
        text.push_str(&format!("{},{y:.4},{}\n", cells[0], cells[2..].join(",")));
    }
    sandbox.write("data.csv", text);
    let private = |more: &[&str]| {
        let json = personalize(&sandbox, more).exits(0).json();
        figure(&json, "trained_on", "private")
    };
    let args = "--insecure-seed 3 --json --show-internal --out plain --l2-penalty 0.001,0.1,10";
    let args = words(args);
    let plain = private(&args);
    let args = words("--insecure-seed 3 --json --show-internal --sparse 1");
    let sparse = private(&args);
    assert!(sparse < 0.5 * plain, "{sparse} {plain}");
    // weights are not tied to the subspace
    let args = words("--insecure-seed 3 --json --show-internal --out weighed");
    let weighed = private(&args);
    assert!(weighed < 0.5 * plain, "{weighed} {plain}");
    // a new user fits the same kind of model
    let users = sandbox.dp(&words("predict --model dp-model --history data.csv --json"));
    let users = users.exits(0).json();
    let own = users["users"][0]["coefficients"]["b"].as_f64().unwrap();
    assert!((own - 1.5).abs() < 0.3, "{own}");
}

#[test]
fn the_published_method_can_be_chosen() {
    let sandbox = sandbox();
    let args = words("--method alternating --epsilon 30 --insecure-seed 3 --json --show-internal");
    let json = personalize(&sandbox, &args).exits(0).json();
    assert_eq!(
        (&json["method"], &json["steps"]),
        (&"alternating".into(), &1.into())
    );
    let rmse = |method| figure(&json, "trained_on", method);
    assert!(rmse("private") < rmse("random-subspace"));
    let args = ["--method", "alternating", "--task", "classification"];
    let run = personalize(&sandbox, &args).exits(2);
    assert!(
        run.stderr.contains("--task classification"),
        "{}",
        run.stderr
    );
    let args = words("--sparse 1 --task classification --out other");
    personalize(&sandbox, &args).exits(2);
}

#[test]
fn classes_are_fitted_by_the_logistic_loss() {
    let sandbox = sandbox();
    let args = words("--task classification --threshold 0 --epsilon 10 --rank 2");
    let json = personalize(
        &sandbox,
        &[
            &args[..],
            &["--insecure-seed", "1", "--json", "--show-internal"],
        ]
        .concat(),
    );
    let json = json.exits(0).json();
    assert_eq!(
        (&json["method"], &json["internal"]["metric"]),
        (&"gradient".into(), &"accuracy".into())
    );
    let accuracy = |method: &str| figure(&json, "trained_on", method);
    assert!(
        accuracy("private") > accuracy("own-mean") + 0.1,
        "{}",
        accuracy("private")
    );
    assert!(accuracy("private") > accuracy("single-model") + 0.1);
}
