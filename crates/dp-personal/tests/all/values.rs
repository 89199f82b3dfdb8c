//! Workflows for callers with values instead of files: plans, tables in memory, models read once.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use dp_personal::accounting::{Budget, Certificate, Ledger, Plan, PlannedRelease};
use dp_personal::core::{Adjacency, ApproxDp};
use dp_personal::data::{Column, MemoryTable, RatingsColumns};
use dp_personal::settings::{
    ClassWeight, FederateSettings, Given, LedgerChoice, LedgerFile, LedgerSettings,
    PersonalizeSettings, PredictSettings, RecommendSettings, TrainSettings, TuneSettings,
};
use dp_personal::watch::Silent;
use dp_personal::workflows::predict::{LinearModel, predict};
use dp_personal::workflows::recommend::{Recommender, recommend};
use dp_personal::workflows::{federate, personalize, train, tune};

const SEEDED: [(&str, &str); 5] = [
    ("no_ledger", "true"),
    ("epsilon", "2"),
    ("delta", "1e-5"),
    ("insecure_seed", "3"),
    ("release_metrics", "0.1"),
];

/// Checks that a plan matches the releases.
fn assert_planned(plan: &Plan, certificate: &Certificate) {
    let planned = plan.releases().iter().map(PlannedRelease::label);
    let made = certificate.releases.iter();
    assert!(planned.eq(made.map(|release| release.label.as_str())));
    assert_eq!(plan.target(), certificate.target);
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

fn given(of: &[(&str, &str)]) -> Given {
    let all = SEEDED.iter().chain(of);
    all.fold(Given::default(), |given, (name, value)| {
        given.with(name, value)
    })
}

/// Ratings of 40 users, as columns and as csv.
fn ratings(dir: &Path) -> (MemoryTable, String) {
    let rows: Vec<(i64, i64, f64)> = (0..200)
        .map(|row| (row / 5, (row * 7) % 11, (1 + row % 5) as f64))
        .collect();
    let mut csv = "user,item,rating\n".to_owned();
    for (user, item, rating) in &rows {
        writeln!(csv, "{user},{item},{rating}").unwrap();
    }
    let path = dir.join("ratings.csv");
    fs::write(&path, csv).unwrap();
    let columns = [
        (
            "user",
            Column::Integer(rows.iter().map(|row| row.0).collect()),
        ),
        (
            "item",
            Column::Integer(rows.iter().map(|row| row.1).collect()),
        ),
        (
            "rating",
            Column::Float(rows.iter().map(|row| row.2).collect()),
        ),
    ];
    let columns = columns.map(|(name, values)| (name.to_owned(), values));
    (
        MemoryTable::of_columns("ratings.csv", columns).unwrap(),
        text(&path),
    )
}

fn train_settings(ratings: &str, out: &Path) -> TrainSettings {
    let out = text(out);
    let of = [
        ("ratings", ratings),
        ("out", &out),
        ("item_ids_are_public", "true"),
        ("n_rounds", "2"),
    ];
    given(&of).settings().unwrap()
}

#[test]
fn a_table_in_memory_trains_the_model_of_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let (table, file) = ratings(dir.path());
    let from_file = train_settings(&file, &dir.path().join("file"));
    let mut from_memory = train_settings("", &dir.path().join("memory"));
    from_memory.ratings = table.into();
    for settings in [&from_file, &from_memory] {
        let plan = train::plan(settings).unwrap();
        let outcome = train::train(settings, &mut Silent).unwrap();
        assert_planned(&plan, &outcome.certificate);
    }
    for name in ["item_factors.safetensors", "items.csv", "certificate.json"] {
        let read = |folder: &str| fs::read(dir.path().join(folder).join(name)).unwrap();
        if name == "certificate.json" {
            assert!(!read("memory").is_empty());
        } else {
            assert_eq!(read("file"), read("memory"), "{name}");
        }
    }
}

#[test]
fn a_ledger_may_have_the_name_of_the_file_without_its_extension() {
    let dir = tempfile::tempdir().unwrap();
    let (_, data) = ratings(dir.path());
    let path = std::path::Path::new(&data);
    let whole = path.file_name().unwrap().to_str().unwrap();
    let stem = path.file_stem().unwrap().to_str().unwrap();
    assert_ne!(whole, stem);
    for (file, made_as, named) in [("a.ledger", Some(stem), stem), ("b.ledger", None, whole)] {
        let ledger = dir.path().join(file);
        if let Some(name) = made_as {
            let budget = Budget::new(
                ApproxDp::target(1.0, 1e-5).unwrap(),
                Adjacency::AddRemoveUser,
            );
            Ledger::create(&ledger, name, budget.unwrap()).unwrap();
        }
        let new = made_as.is_none().to_string();
        let out = text(&dir.path().join(format!("model-{named}")));
        let of = [
            ("ratings", data.as_str()),
            ("out", &out),
            ("item_ids_are_public", "true"),
            ("n_rounds", "2"),
            ("ledger", &text(&ledger)),
            ("new_ledger", &new),
        ];
        let base = of.into_iter().fold(
            Given::default().with("epsilon", "1").with("delta", "1e-5"),
            |given, (name, value)| given.with(name, value),
        );
        let settings: TrainSettings = base.settings().unwrap();
        let outcome = train::train(&settings, &mut Silent).unwrap();
        assert_eq!(outcome.certificate.data_set_id, named);
    }
}

#[test]
fn a_recommender_read_once_says_what_dp_recommend_says() {
    let dir = tempfile::tempdir().unwrap();
    let (_, file) = ratings(dir.path());
    let out = dir.path().join("model");
    train::train(&train_settings(&file, &out), &mut Silent).unwrap();
    let history = dir.path().join("mine.csv");
    fs::write(&history, "item,rating\n0,5\n1,1\n99,3\n").unwrap();
    let flags = Given::default()
        .with("model", text(&out))
        .with("history", text(&history))
        .with("count", "4");
    let said = recommend(&flags.settings::<RecommendSettings>().unwrap()).unwrap();

    let model = Recommender::read(&out, None).unwrap();
    let columns = [
        ("sku".to_owned(), Column::Integer(vec![0, 1, 99])),
        ("stars".to_owned(), Column::Float(vec![5.0, 1.0, 3.0])),
    ];
    let mine = MemoryTable::of_columns("mine", columns).unwrap();
    let names = RatingsColumns {
        item: Some("sku".to_owned()),
        rating: Some("stars".to_owned()),
        ..RatingsColumns::default()
    };
    let own = model.personalize(mine, names, None).unwrap();
    assert_eq!(model.recommend(&own, 4).unwrap(), said.items);
    assert_eq!(own.n_unknown_items(), 1);
    let best = &said.items[0];
    let predicted = model.predict(&own, &best.id).unwrap();
    assert!((predicted - best.score).abs() < 1e-9);
    assert_eq!(model.predict(&own, "99"), None);
}

/// Labelled rows of 30 users as csv.
fn rows(path: &Path) -> String {
    let mut csv = "user,a,b,target\n".to_owned();
    for row in 0..300 {
        let (a, b) = (f64::from(row % 7) / 7.0, f64::from(row % 5) / 5.0);
        writeln!(csv, "{},{a},{b},{}", row % 30, a - 0.5 * b).unwrap();
    }
    fs::write(path, csv).unwrap();
    text(path)
}

#[test]
fn linear_models_read_once_say_what_dp_predict_says() {
    let dir = tempfile::tempdir().unwrap();
    let data = rows(&dir.path().join("rows.csv"));
    let [subspace, shared] = ["subspace", "shared"].map(|name| text(&dir.path().join(name)));
    let of = |out| [("data", data.as_str()), ("out", out), ("metric_bound", "2")];
    let personal = given(&of(&subspace)).with("rank", "1");
    let personal: PersonalizeSettings = personal.settings().unwrap();
    let plan = personalize::plan(&personal).unwrap();
    let fitted = personalize::personalize(&personal, &mut Silent)
        .unwrap()
        .fitted;
    assert_planned(&plan, &fitted.certificate);
    let federated = given(&of(&shared))
        .with("n_rounds", "2")
        .with("alpha_grid", "1");
    let federated: FederateSettings = federated.settings().unwrap();
    let plan = federate::plan(&federated).unwrap();
    let outcome = federate::federate(&federated, &mut Silent).unwrap();
    let federate::FederateOutcome::Certified(outcome) = outcome else {
        panic!("one epsilon");
    };
    assert_planned(&plan, &outcome.certificate);

    for folder in [subspace, shared] {
        let flags = Given::default()
            .with("model", &folder)
            .with("history", &data)
            .with("rows", &data);
        let said = predict(&flags.settings::<PredictSettings>().unwrap()).unwrap();
        let model = LinearModel::read(&folder).unwrap();
        let people = model.personalize(&data, None, ClassWeight::None).unwrap();
        assert_eq!(people.models(), said.users);
        assert_eq!(
            Some(model.predict(&people, &data, None).unwrap()),
            said.rows
        );
        let (numbers, [n_rows, n_columns]) = model.shared();
        assert_eq!(numbers.len(), n_rows * n_columns);
    }
}

#[test]
fn no_ledger_pays_for_noise_that_anybody_can_repeat() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = dir.path().join("l.ledger");
    let counted = |settings: &LedgerSettings| LedgerSettings {
        account: LedgerChoice::Ledger(LedgerFile {
            is_new: true,
            ..LedgerFile::at(&ledger)
        }),
        ..settings.clone()
    };
    let out = text(&dir.path().join("model"));
    let (_, csv) = ratings(dir.path());
    let of_ratings = [
        ("ratings", csv.as_str()),
        ("out", &out),
        ("item_ids_are_public", "true"),
    ];
    let of_rows = [
        ("data", csv.as_str()),
        ("out", &out),
        ("target_col", "rating"),
        ("metric_bound", "2"),
    ];
    let mut of_train: TrainSettings = given(&of_ratings).settings().unwrap();
    of_train.ledger = counted(&of_train.ledger);
    let candidates = [("candidates", "dim=1"), ("candidates", "dim=3")];
    let mut of_tune: TuneSettings = given(&[&of_ratings[..], &candidates].concat())
        .settings()
        .unwrap();
    of_tune.train.ledger = counted(&of_tune.train.ledger);
    let mut of_personalize: PersonalizeSettings = given(&[&of_rows[..], &[("rank", "1")]].concat())
        .settings()
        .unwrap();
    of_personalize.ledger = counted(&of_personalize.ledger);
    let mut of_federate: FederateSettings = given(&of_rows).settings().unwrap();
    of_federate.ledger = counted(&of_federate.ledger);
    for ended in [
        train::train(&of_train, &mut Silent).map(drop),
        tune::tune(&of_tune, &mut Silent).map(drop),
        personalize::personalize(&of_personalize, &mut Silent).map(drop),
        federate::federate(&of_federate, &mut Silent).map(drop),
    ] {
        let refused = ended.unwrap_err().to_string();
        assert!(
            refused.contains("`insecure_seed` cannot be used with `ledger`"),
            "{refused}"
        );
        assert!(!ledger.exists());
    }
}
