//! Held-out metrics: the verdict on a model, who may see it, and metrics that were charged and
//! released.

use serde_json::Value;

use crate::support::{Sandbox, ratings, words};

const CLAIM: &str = "not chosen by looking";

/// Each user has one level, and all items are alike: a model cannot be better than each user's own
/// mean.
fn levels() -> String {
    let row = |u: usize, i: usize| {
        let level = [1.5, 2.5, 3.5, 4.5][u % 4];
        let chance = [0.3, -0.1, 0.2, -0.4][(u * 7 + i * 11 + u * i) % 4];
        format!("u{u},i{i},{}\n", level + chance)
    };
    let users = (0..150).flat_map(|u| (0..20).map(move |n| row(u, (u + n) % 25)));
    "user,item,rating\n".to_owned() + &users.collect::<String>()
}

/// A run whose model is mostly noise.
const NOISY: &str =
    "train ratings.csv --method adadpals --dim 3 --steps 1 --epsilon 0.2 --delta 1e-5";

#[test]
fn the_verdict_is_internal_unless_it_is_asked_for() {
    let sandbox = Sandbox::with_ratings();
    let run = sandbox.train(&[]).exits(0);
    let last = run.stdout.lines().last().unwrap().to_owned();
    assert!(
        last.starts_with("verdict") && last.contains("dp-model-internal/internal.md"),
        "{last}"
    );
    for word in ["user mean", "do not ship", "better than", "RMSE"] {
        assert!(!run.stdout.contains(word), "{}", run.stdout);
        assert!(!sandbox.text("dp-model/report.md").contains(word));
    }
    let internal = sandbox.value("dp-model-internal/internal.json");
    let verdict = &internal["verdict"];
    assert!(["better", "undecided", "worse"].contains(&verdict["outcome"].as_str().unwrap()));
    assert_eq!(
        (&verdict["metric"], &verdict["is_released"]),
        (&"RMSE".into(), &false.into())
    );
    let shown = sandbox.train(&["--show-internal", "--force"]).exits(0);
    let last = shown.stdout.lines().last().unwrap();
    assert!(
        last.starts_with("verdict") && last.contains("RMSE") && last.contains("do not publish"),
        "{last}"
    );
    shown.prints(&["95 % interval", "gain over"]);
    let json = sandbox.train(&["--json", "--force"]).exits(0).json();
    assert!(json["verdict"].is_null() && json["internal"].is_null());
    let page = sandbox.text("dp-model-internal/internal.md");
    for part in [
        "Verdict: ",
        "With confidence intervals",
        "By activity of users",
        "By popularity of items",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let users = sandbox.text("dp-model-internal/internal-users.csv");
    assert!(
        users.starts_with("user,held_out,history_rows,test_rows,RMSE model,\"RMSE user mean (free")
    );
}

#[test]
fn a_model_that_is_worse_than_a_free_baseline_can_fail_the_command_and_that_is_noted() {
    let sandbox = Sandbox::new();
    sandbox.write("ratings.csv", levels());
    let ledger = "--ledger l.ledger --ledger-epsilon 3";
    let run = format!("{NOISY} {ledger}");
    sandbox.dp(&words(&format!("{run} --out first"))).exits(0);
    let first = sandbox.text("first/certificate.json");
    assert!(first.contains(CLAIM));
    let run = sandbox
        .dp(&words(&format!("{run} --out second --fail-if-worse")))
        .exits(9)
        .says(&[
            "do not ship this: the best baseline is better",
            "do not publish",
        ]);
    run.prints(&["verdict     in second-internal/internal.md"]);
    let verdict = sandbox.value("second-internal/internal.json")["verdict"].clone();
    for figure in ["model", "baseline_value", "gain"] {
        let figure = format!("{:.4}", verdict[figure].as_f64().unwrap().abs());
        assert!(!run.stderr.contains(&figure) && !run.stdout.contains(&figure));
    }
    let json = sandbox.dp(&words(&format!(
        "{NOISY} --json --out json --fail-if-worse"
    )));
    let json = json.exits(9).json();
    assert!(json["verdict"].is_null() && json["internal"].is_null());
    sandbox.dp(&["verify", "second"]).exits(0);
    assert_eq!(
        sandbox.value("second-internal/internal.json")["verdict"]["outcome"],
        "worse"
    );
    sandbox
        .dp(&words(&format!("{NOISY} {ledger} --out third")))
        .exits(0);
    assert!(!sandbox.text("third/certificate.json").contains(CLAIM));
}

#[test]
fn released_metrics_are_paid_for_listed_recomputable_and_decide_the_verdict() {
    let sandbox = Sandbox::new();
    sandbox.write("ratings.csv", levels());
    let run = "train ratings.csv --epsilon 8 --delta 1e-5 --ledger l.ledger --ledger-epsilon 20";
    let more = "--release-metrics 0.3 --fail-if-worse --publish-releases --out model";
    let run_of = |more: &str| sandbox.dp(&words(&format!("{run} {more}")));
    let outcome = run_of(more);
    assert!([0, 9].contains(&outcome.code), "{}", outcome.stderr);
    outcome.prints(&[
        "metrics",
        "RMSE, model: ",
        "95 % interval",
        "by released metrics",
    ]);
    let certificate = sandbox.value("model/certificate.json");
    let releases = certificate["releases"].as_array().unwrap();
    let last = &releases[releases.len() - 1];
    assert_eq!(
        (&last["label"], &last["n_draws"]),
        (&"held-out metrics".into(), &7.into())
    );
    assert!(certificate["guarantee"]["epsilon"].as_f64().unwrap() <= 8.0);
    // a share of mu^2 is a share of the sum of inverse squared noise multipliers
    let cost = |release: &Value| {
        1.0 / release["event"]["noise_multiplier"]
            .as_f64()
            .unwrap()
            .powi(2)
    };
    let total: f64 = releases.iter().map(cost).sum();
    assert!(
        (cost(last) / total - 0.3).abs() < 1e-9,
        "{}",
        cost(last) / total
    );
    let metrics = certificate["metrics"].as_array().unwrap();
    let rmse = metrics[0]["value"].as_f64().unwrap();
    let exact = sandbox.value("model-internal/internal.json");
    let exact = exact["headline"]["value"].as_f64().unwrap();
    assert!((rmse - exact).abs() < 0.25, "{rmse}, {exact}");
    sandbox
        .text("model/report.md")
        .find("noise paid for by the budget")
        .unwrap();
    sandbox
        .dp(&words("verify model --ledger l.ledger --recompute"))
        .exits(0);
    // the verdict follows from releases: nothing was looked at that was not charged
    sandbox.dp(&words(&format!("{run} --out next"))).exits(0);
    assert!(sandbox.text("next/certificate.json").contains(CLAIM));
    // metrics that do not follow from the list of releases are detected
    let text = sandbox.text("model/certificate.json");
    let mut edited = dp_accounting::Certificate::from_json(&text).unwrap();
    let mut wrong = edited.metrics.clone();
    wrong[0].value = 0.5 * (wrong[0].value + wrong[0].upper);
    edited = edited.with_metrics(wrong);
    sandbox.issue("model", &edited);
    sandbox
        .dp(&words("verify model --recompute"))
        .exits(6)
        .says(&["held-out metrics"]);
}

#[test]
fn lists_have_released_metrics_too_and_so_has_a_choice_among_candidates() {
    let sandbox = Sandbox::new();
    sandbox.write("ratings.csv", ratings(300, 40, 12));
    let run = "ratings.csv --epsilon 8 --delta 1e-5 --feedback implicit --release-metrics 0.2 --publish-releases --json";
    for (command, more) in [("train", ""), ("tune", "--try dim=2 --try dim=3")] {
        let line = format!("{command} {run} --out {command} {more}");
        let json = sandbox.dp(&words(&line)).exits(0).json();
        let metrics = json["released"]["metrics"].as_array().unwrap();
        let names: Vec<_> = metrics
            .iter()
            .map(|of| of["metric"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["Recall@20", "NDCG@20", "Recall@20"]);
        assert_eq!(
            metrics[2]["method"],
            "gain over popularity (released counts)"
        );
        assert_eq!(json["verdict"]["is_released"], true);
        sandbox.dp(&["verify", command, "--recompute"]).exits(0);
    }
}

#[test]
fn metrics_of_what_is_not_held_out_or_not_measured_are_refused_before_anything_is_read() {
    let sandbox = Sandbox::new();
    for (line, flag) in [
        (
            "train no.csv --release-metrics 0.1 --no-split",
            "--no-split",
        ),
        ("train no.csv --release-metrics 1", "--release-metrics"),
        ("train no.csv --fail-if-worse --no-split", "--no-split"),
        ("train no.csv --metric-bound 2", "--release-metrics"),
        (
            "train no.csv --items no.csv --method am-ssp --release-metrics 0.1 --no-split",
            "--no-split",
        ),
        ("federate no.csv --release-metrics 0.1", "--metric-bound"),
        (
            "federate no.csv --release-metrics 0.1 --metric-bound 3 --epsilon 2",
            "--epsilon",
        ),
    ] {
        let line = format!("{line} --epsilon 1 --delta 1e-5 --no-ledger");
        let mut command = sandbox.command();
        command
            .args(words(&line))
            .env_remove("DP_ITEM_IDS_ARE_PUBLIC")
            .env_remove("DP_NO_LEDGER");
        if !line.contains("am-ssp") && line.starts_with("train") {
            command.arg("--item-ids-are-public");
        }
        let run: crate::support::Run = command.output().unwrap().into();
        run.exits(2).says(&[flag]);
    }
}

/// Labels that follow each user's own line, within 8 of 0.
fn lines_of_users() -> String {
    let mut rows = "user,a,b,target\n".to_owned();
    for user in 0..40_u32 {
        for row in 0..30_u32 {
            let (a, b) = (
                f64::from(row % 6) / 3.0 - 0.8,
                f64::from(row * 7 % 5) / 2.0 - 1.0,
            );
            let own = f64::from(user % 7) - 3.0;
            rows += &format!("u{user},{a},{b},{}\n", own * a + (2.0 - own) * b);
        }
    }
    rows
}

/// The metrics of a run that released some, with their share of the sum of inverse squared noise
/// multipliers of whole Gaussians.
fn measured(sandbox: &Sandbox, command: &str, names: &[[&str; 2]]) -> (Value, f64) {
    let line = format!("{command} --delta 1e-5 --publish-releases --force --json --out measured");
    let json = sandbox.dp(&words(&line)).exits(0).json();
    let certificate = sandbox.value("measured/certificate.json");
    let epsilon = certificate["guarantee"]["epsilon"].as_f64().unwrap();
    let line = words(command);
    let at = line.iter().position(|word| *word == "--epsilon").unwrap();
    assert!(epsilon <= line[at + 1].parse::<f64>().unwrap());
    let metrics = certificate["metrics"].as_array().unwrap();
    let found: Vec<_> = metrics
        .iter()
        .map(|of| [&of["metric"], &of["method"]].map(|text| text.as_str().unwrap()))
        .collect();
    assert_eq!(found, names, "{command}");
    assert_eq!(json["released"]["metrics"].as_array().unwrap(), metrics);
    assert_eq!(json["verdict"]["is_released"], true);
    let report = sandbox.text("measured/report.md");
    assert!(report.contains("noise paid for by the budget") && report.contains("Verdict: "));
    let releases = certificate["releases"].as_array().unwrap();
    let last = releases.last().unwrap();
    let n_draws = 1 + 2 * names.len();
    assert_eq!(
        (&last["label"], &last["n_draws"]),
        (&"held-out metrics".into(), &n_draws.into())
    );
    let z = last["event"]["noise_multiplier"].as_f64().unwrap();
    sandbox.dp(&words("verify measured --recompute")).exits(0);
    // metrics that do not follow from the list of releases are detected
    let text = sandbox.text("measured/certificate.json");
    let mut edited = dp_accounting::Certificate::from_json(&text).unwrap();
    let mut wrong = edited.metrics.clone();
    let first = &mut wrong[0];
    let other = [first.lower, first.upper]
        .into_iter()
        .find(|end| (end - first.value).abs() > 1e-9);
    first.value = 0.5 * (first.value + other.unwrap());
    edited = edited.with_metrics(wrong);
    sandbox.issue("measured", &edited);
    sandbox
        .dp(&words("verify measured --recompute"))
        .exits(6)
        .says(&["held-out metrics"]);
    (metrics[0].clone(), z)
}

/// All kinds of plans: shares of mu^2, a choice among alphas, and rounds on samples, which the
/// accountant composes with the metrics.
#[test]
fn what_users_make_of_federated_releases_has_released_metrics() {
    let sandbox = Sandbox::new();
    sandbox.write("rows.csv", lines_of_users());
    let names = |metric| {
        [
            [metric, "model"],
            [
                if metric == "RMSE" { "MSE" } else { metric },
                "gain over own rows alone (free, local)",
            ],
        ]
    };
    let run = "federate rows.csv --epsilon 20 --rounds 3 --release-metrics 0.5";
    let of_shares = "--alpha-grid 1 --target-range=-8,8";
    let of_choice = "--alpha-grid 0,1,inf --metric-bound 8";
    let sampled = "--alpha-grid 1 --metric-bound 8 --sampling-probability 0.5 --n-users 40";
    let classes = "--alpha-grid 0,1 --task classification --held-out-users 0.2";
    let mut noise = Vec::new();
    for (more, metric, end) in [
        (of_shares, "RMSE", 8.0),
        (of_choice, "RMSE", 8.0),
        (sampled, "RMSE", 8.0),
        (classes, "error rate", 1.0),
    ] {
        let (first, z) = measured(&sandbox, &format!("{run} {more}"), &names(metric));
        assert_eq!(first["clipped_to"], serde_json::json!([0.0, end]));
        let figure = |of: &str| first[of].as_f64().unwrap();
        assert!(figure("lower") <= figure("value") && figure("value") <= figure("upper"));
        // the users' own rows are sufficient: 40 users, noise of a tenth of the range
        assert!(figure("value") < 0.7 * end, "{more}: {first}");
        noise.push(z);
    }
    // half of mu^2 of the whole run, whatever else is released
    for z in &noise {
        assert!((z / noise[0] - 1.0).abs() < 1e-6, "{noise:?}");
    }
    // users with rows beyond any range have the maximum error, and do not affect other users
    let hostile = (0..30).map(|row| format!("h{},1e38,-3e38,{}e38\n", row % 3, row % 5 - 2));
    let rows = lines_of_users() + &hostile.collect::<String>();
    sandbox.write("rows.csv", rows);
    for more in [of_shares, of_choice] {
        let (first, _) = measured(&sandbox, &format!("{run} {more}"), &names("RMSE"));
        assert!(first["value"].as_f64().unwrap() < 0.8 * 8.0, "{first}");
    }
    // nothing was looked at that was not charged
    let ledger = "--ledger l.ledger --ledger-epsilon 50";
    let line = format!("{run} --delta 1e-5 {of_shares} {ledger} --fail-if-worse --out first");
    let code = sandbox.dp(&words(&line)).code;
    assert!([0, 9].contains(&code));
    let line = format!("{run} --delta 1e-5 {of_shares} {ledger} --out second");
    sandbox.dp(&words(&line)).exits(0);
    assert!(sandbox.text("second/certificate.json").contains(CLAIM));
}

#[test]
fn rounds_with_public_features_have_released_metrics() {
    let sandbox = crate::features::sandbox();
    let run =
        "train ratings.csv --items items.csv --method am-ssp --epsilon 10 --release-metrics 0.3";
    let names = [
        ["RMSE", "model"],
        ["MAE", "model"],
        ["MSE", "gain over user mean (free, local)"],
    ];
    let (rmse, _) = measured(&sandbox, run, &names);
    let exact = sandbox.value("measured-internal/internal.json");
    let exact = exact["headline"]["value"].as_f64().unwrap();
    assert!(
        (rmse["value"].as_f64().unwrap() - exact).abs() < 0.25,
        "{rmse}, {exact}"
    );
    let names = [
        ["Recall@20", "model"],
        ["NDCG@20", "model"],
        ["Recall@20", "gain over popularity (released counts)"],
    ];
    let lists = format!("{run} --feedback implicit --min-rating 4");
    measured(&sandbox, &lists, &names);
}

/// Labels that follow each user's own line: the users' own rows determine it, a noisy model does
/// not.
#[test]
fn rows_have_a_verdict_too() {
    let sandbox = Sandbox::new();
    sandbox.write("rows.csv", lines_of_users());
    // `dp federate` is evaluated by the personal models that users build from its releases, which
    // are no worse than their own rows alone
    for (command, more, model, code) in [
        ("personalize", "--rank 1", "private personalization", 9),
        (
            "federate",
            "--rounds 3 --alpha-grid 0,1",
            "users' own choice (free)",
            0,
        ),
    ] {
        let line = format!(
            "{command} rows.csv --epsilon 0.1 --delta 1e-5 {more} --out {command} --fail-if-worse"
        );
        let run = sandbox.dp(&words(&line)).exits(code);
        if code == 9 {
            run.says(&["do not ship this: the best baseline is better"]);
        }
        let internal = sandbox.value(&format!("{command}-internal/internal.json"));
        assert_eq!(internal["verdict"]["outcome"] == "worse", code == 9);
        let first = &internal["quality"]["by_activity"][0];
        assert_eq!(
            (&first["metric"], &first["method"]),
            (&"RMSE".into(), &model.into())
        );
        if command == "federate" {
            let methods = internal["quality"]["metrics"].as_array().unwrap().iter();
            let methods: Vec<_> = methods.map(|row| row["method"].as_str().unwrap()).collect();
            let baselines = [
                "own rows alone (free, local)",
                "own mean (free, local)",
                "alpha 0 (free, local)",
            ];
            assert_eq!(methods[1..4], baselines);
        }
        sandbox.dp(&["verify", command]).exits(0);
    }
    // errors are clipped to a public range, which has to be given
    let line = "personalize rows.csv --rank 1 --epsilon 20 --delta 1e-5 --release-metrics 0.5 --publish-releases --force";
    sandbox.dp(&words(line)).exits(2).says(&["--metric-bound"]);
    let line = format!("{line} --target-range=-8,8 --json --out measured");
    let json = sandbox.dp(&words(&line)).exits(0).json();
    let metrics = json["released"]["metrics"].as_array().unwrap();
    assert_eq!((metrics.len(), &metrics[0]["metric"]), (2, &"RMSE".into()));
    assert_eq!(metrics[0]["clipped_to"], serde_json::json!([0.0, 8.0]));
    assert_eq!(metrics[1]["method"], "gain over own data, ridge");
    assert_eq!(json["verdict"]["is_released"], true);
    sandbox.dp(&words("verify measured --recompute")).exits(0);
    let several = words("federate rows.csv --epsilon 1,2 --delta 1e-5 --fail-if-worse");
    sandbox.dp(&several).exits(2).says(&["--fail-if-worse"]);
}

/// Users with a single record: a held-out user has it as the target and has no history.
#[test]
fn users_without_a_history_are_asked_when_lists_are_measured() {
    let sandbox = Sandbox::new();
    let rows = (0..400).map(|u| format!("u{u},i{},5\n", u % 6));
    sandbox.write(
        "ratings.csv",
        "user,item,rating\n".to_owned() + &rows.collect::<String>(),
    );
    let line =
        "train ratings.csv --epsilon 5 --delta 1e-5 --feedback implicit --json --show-internal";
    let json = sandbox.dp(&words(line)).exits(0).json();
    // six items fit into every list of twenty
    assert_eq!(json["internal"]["metrics"]["test_recall_at_20"], 1.0);
    let line = "evaluate ratings.csv --model dp-model --json --show-internal --no-ledger";
    let found = sandbox.dp(&words(line)).exits(0).json();
    assert_eq!(found["internal"]["overall"][0]["recall_at_20"], 1.0);
    assert_eq!(found["internal"]["overall"][1]["recall_at_20"], 1.0);
}

#[test]
fn classes_have_auc_log_loss_and_recalls_with_intervals() {
    let sandbox = Sandbox::new();
    let mut rows = "user,a,b,target\n".to_owned();
    for user in 0..30_u32 {
        for row in 0..30_u32 {
            let (a, b) = (f64::from(row % 6) - 2.5, f64::from(row * 7 % 5) - 2.0);
            let own = f64::from(user % 3) - 1.0;
            let yes = own * a + b + f64::from((row * 11 + user) % 7) - 3.0 > 0.0;
            rows += &format!("u{user},{a},{b},{}\n", u8::from(yes));
        }
    }
    sandbox.write("rows.csv", rows);
    for (command, more) in [
        ("personalize", "--rank 1"),
        ("federate", "--rounds 3 --alpha-grid 1"),
    ] {
        let line = format!(
            "{command} rows.csv --task classification --epsilon 5 --delta 1e-5 {more} --out {command} --json --show-internal"
        );
        let json = sandbox.dp(&words(&line)).exits(0).json();
        assert_eq!(json["internal"]["verdict"]["metric"], "error rate");
        // accuracy, while the table has the error rate
        let internal = sandbox.value(&format!("{command}-internal/internal.json"));
        let headline = &internal["headline"];
        let [lower, value, upper] = ["/interval/0", "/value", "/interval/1"]
            .map(|at| headline.pointer(at).and_then(Value::as_f64).unwrap());
        assert!(lower < value && value < upper, "{headline}");
        let metrics = json["internal"]["quality"]["metrics"].as_array().unwrap();
        let model = &metrics[0]["method"];
        for (name, key) in [
            ("AUC, mean of users", "mean_user_auc"),
            ("log loss", "log_loss"),
            ("recall of yes", "recall_yes"),
            ("recall of no", "recall_no"),
        ] {
            let own = |row: &&Value| row["metric"] == name && row["method"] == *model;
            let row = metrics.iter().find(own).unwrap();
            let figure = |of: &str| row["estimate"][of].as_f64().unwrap();
            assert!(figure("lower") < figure("value") && figure("value") < figure("upper"));
            // the value that the summary shows without an interval
            let internal = &json["internal"];
            let same = match command {
                "personalize" => internal["trained_on"].as_array().unwrap().iter(),
                _ => std::slice::from_ref(&internal["own_choice"]).iter(),
            };
            let same = same.filter_map(|of| of["classes"][key].as_f64());
            assert!(
                { same }.any(|of| (of - figure("value")).abs() < 1e-9),
                "{command}: {row}"
            );
        }
    }
}
