//! A run can be resumed only with the inputs it was begun with: every row of the table of settings
//! is changed in turn.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use dp_personal::error::{Error, Result};
use dp_personal::settings::{
    FederateSettings, Given, Kind, PersonalizeSettings, Setting, Settings, Shapes, TrainSettings,
    TuneSettings, Unread,
};
use dp_personal::watch::{Progress, Silent, Stage, Watch};
use dp_personal::workflows::{federate, personalize, train, tune};
use tempfile::TempDir;

/// Whether a run that was to be interrupted was interrupted, and its error says how to resume.
fn is_interrupted(ended: Result<()>) -> bool {
    match ended {
        Err(
            error @ Error::AfterPayment {
                resumable: true, ..
            },
        ) => error
            .to_string()
            .contains("stays spent: run the same command with `resume`"),
        _ => false,
    }
}

/// Ends a run after its first release.
struct Interrupt;

impl Watch for Interrupt {
    fn progress(&mut self, stage: Stage, at: Progress) -> ControlFlow<()> {
        match stage {
            Stage::Releases if at.done > 0 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// A command that trains: its table, and its workflow on settings as texts.
struct Command {
    name: &'static str,
    table: fn() -> Vec<Setting>,
    run: fn(&Given, &mut dyn Watch) -> Result<()>,
    /// Its settings, in addition to those common to all commands.
    given: &'static [(&'static str, &'static str)],
}

fn read<S: Settings>(given: &Given) -> std::result::Result<S, Unread> {
    given.settings()
}

const TRAIN: Command = Command {
    name: "train",
    table: TrainSettings::table,
    run: |given, watch| train::train(&read(given)?, watch).map(drop),
    given: &[
        ("ratings", "ratings.csv"),
        ("epsilon", "1"),
        ("items", "items.csv"),
    ],
};

fn commands() -> Vec<Command> {
    const PERSONALIZE: Command = Command {
        name: "personalize",
        table: PersonalizeSettings::table,
        run: |given, watch| personalize::personalize(&read(given)?, watch).map(drop),
        given: &[
            ("data", "rows.csv"),
            ("epsilon", "1"),
            ("rank", "1"),
            ("bounds", "bounds.csv"),
        ],
    };
    const FEDERATE: Command = Command {
        name: "federate",
        table: FederateSettings::table,
        run: |given, watch| federate::federate(&read(given)?, watch).map(drop),
        given: &[
            ("data", "rows.csv"),
            ("epsilon", "1"),
            ("alpha_grid", "1"),
            ("n_rounds", "4"),
        ],
    };
    vec![
        TRAIN,
        Command {
            given: &[
                ("ratings", "ratings.csv"),
                ("epsilon", "1"),
                ("items", "items.csv"),
                ("feedback", "implicit"),
            ],
            ..TRAIN
        },
        Command {
            given: &[
                ("ratings", "ratings.csv"),
                ("epsilon", "1"),
                ("items", "items.csv"),
                ("method", "am-ssp"),
                ("feature_cols", "genres"),
            ],
            ..TRAIN
        },
        Command {
            name: "tune",
            table: TuneSettings::table,
            run: |given, watch| tune::tune(&read(given)?, watch).map(drop),
            given: &[
                ("ratings", "ratings.csv"),
                ("epsilon", "1"),
                ("items", "items.csv"),
                ("candidates", "dim=2"),
                ("candidates", "dim=3"),
            ],
        },
        PERSONALIZE,
        Command {
            given: &[
                ("data", "rows.csv"),
                ("epsilon", "1"),
                ("rank", "1"),
                ("task", "classification"),
                ("feature_range", "-1,1"),
            ],
            ..PERSONALIZE
        },
        FEDERATE,
        Command {
            given: &[
                ("data", "ratings.csv"),
                ("epsilon", "1"),
                ("alpha_grid", "1"),
                ("n_rounds", "4"),
                ("items", "items.csv"),
            ],
            ..FEDERATE
        },
    ]
}

/// Inputs of all commands, with a second column of every kind.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let (mut ratings, mut rows) = (
        "user,item,rating,session,item2,rating2\n".to_owned(),
        "user,target,a,b,session,target2\n".to_owned(),
    );
    for user in 0..40 {
        for step in 0..10 {
            let item = (7 * user + step) % 25;
            let rating = 1 + (user * 31 + item * 17) % 5;
            let session = user * 10 + step;
            ratings += &format!(
                "u{user},i{item},{rating},s{session},i{item},{}\n",
                6 - rating
            );
            let [a, b] = [step % 3, (user + step) % 5].map(|n| f64::from(n) / 5.0 - 0.4);
            rows += &format!("{user},{},{a},{b},{session},{}\n", a + b, a - b);
        }
    }
    let items = |genre: &str| {
        let items =
            (0..25).map(|item| format!("i{item},Item {item},{genre}{},d{}\n", item % 4, item % 3));
        "item,title,genres,director\n".to_owned() + &items.collect::<String>()
    };
    for (name, text) in [
        ("ratings.csv", ratings),
        ("rows.csv", rows),
        ("items.csv", items("g")),
        ("other-items.csv", items("h")),
        ("bounds.csv", "column,lower,upper\na,-1,1\n".to_owned()),
        (
            "other-bounds.csv",
            "column,lower,upper\na,-2,1\n".to_owned(),
        ),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

/// The settings of a command in a folder, with some replaced.
fn given(command: &Command, folder: &Path, replaced: &[(&str, Vec<String>)]) -> Given {
    let path = |name: &str| folder.join(name).into_os_string().into_string().unwrap();
    let fixed = [
        ("delta", "1e-5".to_owned()),
        ("ledger", path("l.ledger")),
        ("ledger_epsilon", "5".to_owned()),
        ("out", path("model")),
        ("resume", "true".to_owned()),
    ];
    let own = command.given.iter().map(|&(name, value)| {
        let is_file = Path::new(value).extension().is_some_and(|end| end == "csv");
        (
            name,
            if is_file {
                path(value)
            } else {
                value.to_owned()
            },
        )
    });
    let is_kept = |name: &str| replaced.iter().all(|(other, _)| *other != name);
    let all = fixed
        .into_iter()
        .chain(own)
        .filter(|(name, _)| is_kept(name));
    let all = all.chain(
        replaced
            .iter()
            .flat_map(|(name, values)| values.iter().map(|value| (*name, value.clone()))),
    );
    all.fold(Given::default(), |given, (name, value)| match name {
        "feature_range" => value
            .split(',')
            .fold(given, |given, end| given.with(name, end)),
        _ => given.with(name, value),
    })
}

/// Values of a setting other than the one that a command is given.
fn others(command: &Command, folder: &Path, row: &Setting) -> Vec<Vec<String>> {
    let own: Vec<&str> = command
        .given
        .iter()
        .filter(|(name, _)| *name == row.name)
        .map(|&(_, value)| value)
        .collect();
    let one = |text: &str| vec![vec![text.to_owned()]];
    match (row.name, row.kind) {
        ("user_col", _) => one("session"),
        ("item_col", _) => one("item2"),
        ("rating_col", _) => one("rating2"),
        ("target_col", _) if own.is_empty() && command.given[0].1 == "ratings.csv" => {
            one("rating2")
        }
        ("target_col", _) => one("target2"),
        ("feature_cols", _) if command.name == "train" => one("director"),
        ("feature_cols", _) => one("a"),
        ("feature_range", _) => one("-2,2"),
        ("target_range", _) => vec![vec!["-3".to_owned(), "3".to_owned()]],
        ("candidates", _) => vec![vec!["dim=2".to_owned(), "dim=4".to_owned()]],
        ("alpha_grid", _) => one("0.5"),
        ("epsilon", _) => one("0.9"),
        ("delta", _) => one("1e-6"),
        ("bounds", _) => one(folder.join("other-bounds.csv").to_str().unwrap()),
        (_, Kind::Path) => one(folder
            .join(format!(
                "other-{}",
                own.first().copied().unwrap_or("items.csv")
            ))
            .to_str()
            .unwrap()),
        (_, Kind::Switch) => one("true"),
        (_, Kind::Choice(words)) => {
            let is = own.first().copied().or(row.default).unwrap_or_default();
            words
                .iter()
                .filter(|word| **word != is)
                .map(|word| vec![(*word).to_owned()])
                .collect()
        }
        (_, Kind::Number) => one("0.375"),
        (_, Kind::Whole) => one("7"),
        (_, Kind::Text) => one("other"),
    }
}

fn bytes(folder: &TempDir) -> [Vec<u8>; 2] {
    ["l.ledger", ".model.partial/releases.list"]
        .map(|name| fs::read(folder.path().join(name)).unwrap())
}

#[test]
fn a_setting_that_changes_between_a_run_and_its_end_is_refused_before_anything_is_paid() {
    for command in commands() {
        let folder = folder();
        let run = |replaced: &[(&str, Vec<String>)], watch: &mut dyn Watch| {
            (command.run)(&given(&command, folder.path(), replaced), watch)
        };
        assert!(is_interrupted(run(&[], &mut Interrupt)));
        let begun = bytes(&folder);
        let mut n_named = 0;
        for row in (command.table)() {
            if row.shapes == Shapes::Nothing {
                continue;
            }
            for other in others(&command, folder.path(), &row) {
                let what = format!("{} {} {other:?}", command.name, row.name);
                let error = run(&[(row.name, other)], &mut Silent)
                    .expect_err(&what)
                    .to_string();
                // a value that cannot be read is refused for that reason; other changes because
                // they give another run
                let is_named = error.contains(&format!("`{}` was ", row.name));
                assert!(
                    is_named || !error.contains("interrupted run"),
                    "{what}: {error}"
                );
                n_named += usize::from(is_named);
                assert_eq!(bytes(&folder), begun, "{what}");
            }
        }
        assert!(n_named >= 10, "{}: {n_named}", command.name);
        // settings that do not affect the run may change
        let elsewhere: PathBuf = folder.path().join("moved.csv");
        let (name, file) = command.given[0];
        fs::copy(folder.path().join(file), &elsewhere).unwrap();
        let free = [
            (name, vec![elsewhere.to_str().unwrap().to_owned()]),
            ("data_set", vec![file.to_owned()]),
            ("force", vec!["true".to_owned()]),
            ("publish_releases", vec!["true".to_owned()]),
        ];
        run(&free, &mut Silent).unwrap();
    }
}

#[test]
fn a_run_over_another_column_of_users_is_not_finished_as_this_one() {
    let folder = folder();
    let session = [("user_col", vec!["session".to_owned()])];
    let run = |replaced: &[(&str, Vec<String>)], watch: &mut dyn Watch| {
        (TRAIN.run)(&given(&TRAIN, folder.path(), replaced), watch)
    };
    assert!(is_interrupted(run(&session, &mut Interrupt)));
    let begun = bytes(&folder);
    // the users are not those of the ledger, whatever the operator declares
    assert!(matches!(
        run(&[], &mut Silent),
        Err(Error::OtherUsers { .. })
    ));
    let told = [("same_data_set", vec!["true".to_owned()])];
    let error = run(&told, &mut Silent).unwrap_err().to_string();
    assert!(
        error.contains("`user_col` was session, and is not given"),
        "{error}"
    );
    assert_eq!(bytes(&folder), begun);
    run(&session, &mut Silent).unwrap();
}

/// Ends a run after its last release.
struct InterruptAtEnd;

impl Watch for InterruptAtEnd {
    fn progress(&mut self, stage: Stage, at: Progress) -> ControlFlow<()> {
        match stage {
            Stage::Releases if at.done == at.total => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

#[test]
fn a_run_that_stops_behind_its_released_metrics_ends_with_the_same_and_pays_no_more() {
    for command in commands().into_iter().filter(|of| of.name != "tune") {
        let folder = folder();
        let released = [
            ("release_metrics", vec!["0.3".to_owned()]),
            ("metric_bound", vec!["2".to_owned()]),
        ];
        let run = |watch: &mut dyn Watch| {
            (command.run)(&given(&command, folder.path(), &released), watch)
        };
        assert!(is_interrupted(run(&mut InterruptAtEnd)), "{}", command.name);
        let [ledger, list] = bytes(&folder);
        let text = String::from_utf8_lossy(&list);
        assert!(text.contains("held-out metrics"), "{}", command.name);
        run(&mut Silent).unwrap();
        let path = |name: &str| folder.path().join(name);
        assert_eq!(
            fs::read(path("l.ledger")).unwrap(),
            ledger,
            "{}",
            command.name
        );
        let kept = fs::read(path("model-internal/internal-releases.list")).unwrap();
        assert_eq!(kept, list, "{}", command.name);
        let text = fs::read_to_string(path("model/certificate.json")).unwrap();
        assert!(text.contains("\"metrics\""), "{}", command.name);
    }
}

#[test]
fn a_catalogue_that_was_edited_is_another_one() {
    let folder = folder();
    let run = |watch: &mut dyn Watch| (TRAIN.run)(&given(&TRAIN, folder.path(), &[]), watch);
    assert!(is_interrupted(run(&mut Interrupt)));
    let begun = bytes(&folder);
    let items = folder.path().join("items.csv");
    let text = fs::read_to_string(&items).unwrap();
    fs::write(&items, text.replace("Item 3,", "Another,")).unwrap();
    let error = run(&mut Silent).unwrap_err().to_string();
    assert!(error.contains("`items` was "), "{error}");
    assert_eq!(bytes(&folder), begun);
}

#[test]
fn no_file_shapes_a_run_by_its_name() {
    for command in commands() {
        let by_name = |row: &Setting| row.kind == Kind::Path && row.shapes == Shapes::ByValue;
        assert!(!(command.table)().iter().any(by_name), "{}", command.name);
    }
}
