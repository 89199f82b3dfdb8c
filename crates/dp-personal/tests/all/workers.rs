//! Users distributed over several processes: the released files are those of one process, byte for
//! byte.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Mutex;
use std::thread;

use dp_accounting::Ledger;
use dp_personal::error::{Error, Result};
use dp_personal::mechanism::ToWorker;
use dp_personal::settings::Given;
use dp_personal::watch::{Progress, Silent, Stage, Watch};
use dp_personal::workers::{
    ByteLink, ChannelLink, Dealing, LinkError, Place, Tasks, Worker, answer, shard_of,
    worker_channels,
};
use dp_personal::workflows::{federate, personalize, train, tune};
use tempfile::TempDir;

const COUNTS: [usize; 3] = [1, 2, 4];

type Run = fn(&Given, &mut dyn Watch, Place<'_>) -> Result<()>;

/// A command that trains: its settings in addition to the common ones, and its workflow.
struct Command {
    given: &'static [(&'static str, &'static str)],
    run: Run,
}

fn run_train(given: &Given, watch: &mut dyn Watch, place: Place<'_>) -> Result<()> {
    train::train_at(&given.settings()?, watch, place).map(drop)
}

fn run_tune(given: &Given, watch: &mut dyn Watch, place: Place<'_>) -> Result<()> {
    tune::tune_at(&given.settings()?, watch, place).map(drop)
}

const fn of_train(given: &'static [(&'static str, &'static str)]) -> Command {
    Command {
        given,
        run: run_train,
    }
}

const POOLED: Command = of_train(&[("method", "pooled"), ("items", "items.csv")]);

/// Commands that use more than ratings: private quality statistics, features of items, and a choice
/// among settings.
const WITH_MORE_THAN_RATINGS: [Command; 3] = [
    of_train(&[
        ("feedback", "implicit"),
        ("items", "items.csv"),
        ("release_metrics", "0.1"),
        ("dim", "2"),
    ]),
    of_train(&[
        ("method", "am-ssp"),
        ("items", "items.csv"),
        ("feature_cols", "genres"),
    ]),
    Command {
        given: &[
            ("items", "items.csv"),
            ("candidates", "dim=2"),
            ("candidates", "dim=3"),
        ],
        run: run_tune,
    },
];

/// Ratings and items in a folder.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut ratings = "user,item,rating\n".to_owned();
    for user in 0..60 {
        for step in 0..10 {
            let item = (7 * user + step * step) % 25;
            ratings += &format!("u{user},i{item},{}\n", 1 + (user * 31 + item * 17) % 5);
        }
    }
    let items = (0..25).map(|item| format!("i{item},Item {item},g{}\n", item % 4));
    let items = "item,title,genres\n".to_owned() + &items.collect::<String>();
    for (name, text) in [("ratings.csv", ratings), ("items.csv", items)] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).into_os_string().into_string().unwrap()
}

fn given(command: &Command, folder: &Path, out: &str, more: &[(&'static str, String)]) -> Given {
    let own = command.given.iter().map(|&(name, value)| {
        let is_file = Path::new(value).extension().is_some_and(|end| end == "csv");
        let value = if is_file {
            path(folder, value)
        } else {
            value.to_owned()
        };
        (name, value)
    });
    let fixed = [
        ("ratings", path(folder, "ratings.csv")),
        ("epsilon", "5".to_owned()),
        ("delta", "1e-5".to_owned()),
        ("out", path(folder, out)),
    ];
    let is_kept = |name: &str| more.iter().all(|(other, _)| *other != name);
    let all = fixed
        .into_iter()
        .chain(own)
        .filter(|(name, _)| is_kept(name));
    let all = all.chain(more.iter().cloned());
    all.fold(Given::default(), |given, (name, value)| {
        given.with(name, value)
    })
}

/// Runs the command in several processes, each with its own settings; returns the result of each,
/// the coordinator first.
fn dealt(
    command: &Command,
    settings: &[Given],
    watch: &mut dyn Watch,
    link_of: &(dyn Fn(ChannelLink) -> Box<dyn ByteLink> + Sync),
) -> Vec<Result<()>> {
    let n_shards = settings.len();
    let (pool, links) = worker_channels(n_shards);
    thread::scope(|scope| {
        let mut links = links.into_iter().enumerate();
        let own = links.next(); // dropping a link reports that its worker has left
        let workers: Vec<_> = links
            .map(|(shard, link)| {
                scope.spawn(move || {
                    let worker = Worker {
                        shard,
                        n_shards,
                        dealing: Dealing::ByRun,
                        link: link_of(link),
                    };
                    (command.run)(&settings[shard], &mut Silent, Place::Worker(worker))
                })
            })
            .collect();
        let made = (command.run)(&settings[0], watch, Place::Coordinator(&pool));
        drop((pool, own)); // ends workers that are still waiting
        let workers = workers.into_iter().map(|worker| worker.join().unwrap());
        [made].into_iter().chain(workers).collect()
    })
}

fn plain(link: ChannelLink) -> Box<dyn ByteLink> {
    Box::new(link)
}

/// The files of a folder. In text files, every 64 hexadecimal digits are replaced, because they are
/// ids of releases, which are random, or hashes of files with such ids.
fn released(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(folder).unwrap().map(|file| {
        let file = file.unwrap();
        let name = file.file_name().into_string().unwrap();
        let bytes = fs::read(file.path()).unwrap();
        let bytes = String::from_utf8(bytes).map_or_else(
            |binary| binary.into_bytes(),
            |text| without_hashes(&text).into_bytes(),
        );
        (name, bytes)
    });
    files.collect()
}

fn without_hashes(text: &str) -> String {
    let is_hash =
        |word: &&str| word.len() == 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let words = text.split_inclusive(|letter: char| !letter.is_ascii_alphanumeric());
    let kept = words.map(|word| {
        let end = word.find(|letter: char| !letter.is_ascii_alphanumeric());
        let (word, rest) = word.split_at(end.unwrap_or(word.len()));
        [if is_hash(&word) { "#" } else { word }, rest].concat()
    });
    kept.collect()
}

#[test]
fn any_number_of_processes_releases_what_one_does() {
    let commands = [
        POOLED,
        of_train(&[
            ("method", "adadpals"),
            ("item_ids_are_public", "true"),
            ("dim", "3"),
        ]),
        of_train(&[("method", "biases"), ("items", "items.csv")]),
        of_train(&[("feedback", "implicit"), ("items", "items.csv")]),
        of_train(&[
            ("method", "pooled"),
            ("items", "items.csv"),
            ("release_metrics", "0.1"),
        ]),
    ];
    for command in commands.into_iter().chain(WITH_MORE_THAN_RATINGS) {
        let folder = folder();
        let seeded = |of: &str| {
            fs::create_dir_all(folder.path().join(of)).unwrap();
            let out = format!("{of}/model");
            let more = [
                ("no_ledger", "true".to_owned()),
                ("insecure_seed", "7".to_owned()),
            ];
            given(&command, folder.path(), &out, &more)
        };
        (command.run)(&seeded("alone"), &mut Silent, Place::Alone).unwrap();
        let alone = released(&folder.path().join("alone/model"));
        assert!(alone.len() > 2, "{:?}", command.given);
        for n_shards in COUNTS {
            let out = &n_shards.to_string();
            let settings: Vec<Given> = (0..n_shards).map(|_| seeded(out)).collect();
            let ended = dealt(&command, &settings, &mut Silent, &plain);
            let mut ended = ended.into_iter();
            ended.next().unwrap().unwrap();
            assert!(ended.all(|worker| matches!(worker, Err(Error::WorkerDone))));
            let found = released(&folder.path().join(out).join("model"));
            for (name, bytes) in &alone {
                assert!(
                    found[name] == *bytes,
                    "{:?} {n_shards} {name}",
                    command.given
                );
            }
            assert_eq!(found.len(), alone.len());
        }
    }
}

/// A link of a worker that dies when it should send its third sum.
struct Dies {
    inner: ChannelLink,
    n_posts: usize,
}

impl ByteLink for Dies {
    fn post(&mut self, message: &[u8]) -> Result<(), LinkError> {
        self.n_posts += 1;
        if self.n_posts == 4 {
            return Err(LinkError::Link { what: "died" }); // the first message reports that the worker is ready
        }
        self.inner.post(message)
    }

    fn fetch(&mut self) -> Result<Vec<u8>, LinkError> {
        self.inner.fetch()
    }
}

/// Counts the releases that it is shown.
#[derive(Default)]
struct Count(Vec<usize>);

impl Watch for Count {
    fn progress(&mut self, stage: Stage, at: Progress) -> ControlFlow<()> {
        if stage == Stage::Releases {
            self.0.push(at.done);
        }
        ControlFlow::Continue(())
    }
}

#[test]
fn a_worker_that_dies_ends_the_run_which_goes_on_and_pays_for_nothing_twice() {
    let folder = folder();
    let command = POOLED;
    let settings: Vec<Given> = (0..3)
        .map(|_| {
            let more = [
                ("ledger", path(folder.path(), "l.ledger")),
                ("ledger_epsilon", "5".to_owned()),
                ("resume", "true".to_owned()),
            ];
            given(&command, folder.path(), "model", &more)
        })
        .collect();
    let n_paid = || {
        let ledger = Ledger::audit(folder.path().join("l.ledger")).unwrap();
        ledger.releases.len()
    };
    let mut before = Count::default();
    let ended = dealt(&command, &settings, &mut before, &|inner| {
        Box::new(Dies { inner, n_posts: 0 })
    });
    let said = ended[0].as_ref().unwrap_err().to_string();
    assert!(
        said.contains("its worker has left") && said.contains("`resume`"),
        "{said}"
    );
    let n_made = *before.0.last().unwrap();
    assert!(n_made > 0);
    assert_eq!(n_paid(), n_made); // nothing was paid for the sum that was never complete

    let mut after = Count::default();
    let ended = dealt(&command, &settings, &mut after, &plain);
    ended[0].as_ref().unwrap();
    assert_eq!(n_paid(), *after.0.last().unwrap());
    assert!(n_paid() > n_made);
}

#[test]
fn a_worker_with_other_settings_or_another_file_ends_the_run_before_anything_is_paid() {
    let folder = folder();
    let more = |more: &[(&'static str, String)]| {
        let ledger = ("ledger", path(folder.path(), "l.ledger"));
        let all = [ledger, ("new_ledger", "true".to_owned())];
        [&all[..], more].concat()
    };
    let own = given(&POOLED, folder.path(), "model", &more(&[]));
    let other_settings = given(
        &POOLED,
        folder.path(),
        "model",
        &more(&[("dim", "2".to_owned())]),
    );
    let text = fs::read_to_string(folder.path().join("ratings.csv")).unwrap();
    fs::create_dir(folder.path().join("other")).unwrap();
    fs::write(folder.path().join("other/ratings.csv"), text + "u1,i1,2\n").unwrap();
    let other_file = more(&[("ratings", path(folder.path(), "other/ratings.csv"))]);
    let other_file = given(&POOLED, folder.path(), "model", &other_file);
    for other in [other_settings, other_file] {
        let ended = dealt(&POOLED, &[own.clone(), other], &mut Silent, &plain);
        for ended in ended {
            let said = ended.unwrap_err().to_string();
            assert!(said.contains("not those of the coordinator"), "{said}");
        }
        assert!(!folder.path().join("l.ledger").exists());
        assert!(!folder.path().join("model").exists());
    }
}

/// Writes the ratings as one file per shard, and an empty one for the coordinating process: folders
/// `shard0`, ... and `none`.
fn deal(folder: &Path, n_shards: usize, shard_of: &dyn Fn(&str) -> usize) {
    let text = fs::read_to_string(folder.join("ratings.csv")).unwrap();
    let (header, rows) = text.split_once('\n').unwrap();
    let write = |name: String, keep: &dyn Fn(&str) -> bool| {
        let rows = rows.lines().filter(|row| keep(row));
        let rows: Vec<&str> = [header].into_iter().chain(rows).collect();
        fs::create_dir_all(folder.join(&name)).unwrap();
        fs::write(folder.join(name).join("ratings.csv"), rows.join("\n")).unwrap();
    };
    write("none".to_owned(), &|_| false);
    for shard in 0..n_shards {
        let user = |row: &str| row.split_once(',').unwrap().0.to_owned();
        write(format!("shard{shard}"), &|row| {
            shard_of(&user(row)) == shard
        });
    }
}

/// Runs with tasks that receive only their own users; each answers twice, which counts once.
fn with_tasks(
    command: &Command,
    (n_shards, dealing): (usize, Dealing),
    settings: &dyn Fn(&str) -> Given,
) -> Result<()> {
    let of_shards: Vec<Given> = (0..n_shards)
        .map(|shard| settings(&format!("shard{shard}/ratings.csv")))
        .collect();
    let wrong = Mutex::new(None);
    let pool = Tasks::new(n_shards, |messages, shards| {
        let mut answers = Vec::new();
        let requests = messages
            .iter()
            .filter(|message| ToWorker::is_request(message));
        assert!(
            requests.count() < 2,
            "a request that was answered is dropped"
        );
        for &shard in shards {
            let work = |place: Place<'_>| (command.run)(&of_shards[shard], &mut Silent, place);
            let task = || answer((shard, n_shards, dealing), messages, work);
            match (task(), task()) {
                (Ok(first), Ok(second)) => {
                    assert!(first == second, "an answer follows from messages and users");
                    answers.push((shard, first));
                    if shard > 0 && messages.len() > 1 {
                        answers.push((shard, second));
                    }
                }
                (Err(error), _) | (_, Err(error)) => {
                    *wrong.lock().unwrap() = Some(error);
                    return Err(LinkError::Link {
                        what: "a task failed",
                    });
                }
            }
        }
        Ok(answers)
    });
    let made = (command.run)(
        &settings("none/ratings.csv"),
        &mut Silent,
        Place::Driver(&pool, dealing),
    );
    wrong.into_inner().unwrap().map_or(made, Err)
}

#[test]
#[ignore = "heavy: part of CI"]
fn heavy_tasks_that_are_given_their_users_alone_release_what_one_process_does() {
    for command in [POOLED].into_iter().chain(WITH_MORE_THAN_RATINGS) {
        let folder = folder();
        let folder = folder.path();
        let seeded = |of: &str, ratings: &str| {
            fs::create_dir_all(folder.join(of)).unwrap();
            let more = [
                ("no_ledger", "true".to_owned()),
                ("insecure_seed", "7".to_owned()),
                ("ratings", path(folder, ratings)),
            ];
            given(&command, folder, &format!("{of}/model"), &more)
        };
        (command.run)(&seeded("alone", "ratings.csv"), &mut Silent, Place::Alone).unwrap();
        let alone = released(&folder.join("alone/model"));
        let of_user = |n: usize| move |id: &str| id[1..].parse::<usize>().unwrap() % n;
        let cases = [
            ("one", 1, Dealing::ById),
            ("five", 5, Dealing::ById),
            ("silos", 3, Dealing::Silos),
        ];
        for (out, n_shards, dealing) in cases {
            match dealing {
                Dealing::Silos => deal(folder, n_shards, &of_user(n_shards)),
                _ => deal(folder, n_shards, &shard_of(n_shards)),
            }
            let settings = |ratings: &str| seeded(out, ratings);
            with_tasks(&command, (n_shards, dealing), &settings).unwrap();
            let found = released(&folder.join(out).join("model"));
            assert_eq!(found.len(), alone.len());
            // the certificate and the report mention silos
            let says_more = |name: &str| {
                dealing == Dealing::Silos && (name.ends_with(".json") || name.ends_with(".md"))
            };
            for (name, bytes) in alone.iter().filter(|(name, _)| !says_more(name)) {
                assert!(found[name] == *bytes, "{:?} {out} {name}", command.given);
            }
            let certificate =
                fs::read_to_string(folder.join(out).join("model/certificate.json")).unwrap();
            assert_eq!(certificate.contains("two silos"), dealing == Dealing::Silos);
        }
    }
}

fn run_personalize(given: &Given, watch: &mut dyn Watch, place: Place<'_>) -> Result<()> {
    personalize::personalize_at(&given.settings()?, watch, place).map(drop)
}

fn run_federate(given: &Given, watch: &mut dyn Watch, place: Place<'_>) -> Result<()> {
    federate::federate_at(&given.settings()?, watch, place).map(drop)
}

#[test]
fn linear_models_are_learnt_from_users_in_tasks() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut rows = "user,a,b,c,y\n".to_owned();
    for user in 0..40 {
        for row in 0..12 {
            let at = |k: i32| f64::from((user * 7 + row * k + k) % 11) / 10.0 - 0.5;
            let [a, b, c] = [3, 5, 8].map(at);
            rows += &format!("u{user},{a},{b},{c},{}\n", a * f64::from(user % 3) - b);
        }
    }
    fs::write(folder.join("ratings.csv"), rows).unwrap();
    let subspace = |method| {
        (
            run_personalize as Run,
            vec![("method", method), ("rank", "2")],
        )
    };
    let commands = [
        subspace("residual"),
        subspace("gradient"),
        subspace("alternating"),
        (run_federate, vec![("n_rounds", "2"), ("alpha_grid", "0.5")]),
        (
            run_federate,
            vec![
                ("n_rounds", "2"),
                ("alpha_grid", "0.2"),
                ("alpha_grid", "0.5"),
            ],
        ),
        (
            run_federate,
            vec![
                ("n_rounds", "2"),
                ("alpha_grid", "0.5"),
                ("sampling_probability", "0.5"),
            ],
        ),
    ];
    for (run, own) in commands {
        let command = Command { given: &[], run };
        let seeded = |of: &str, rows: &str| {
            fs::create_dir_all(folder.join(of)).unwrap();
            let fixed = [
                ("data", path(folder, rows)),
                ("out", path(folder, &format!("{of}/model"))),
            ];
            let all = [
                ("epsilon", "5"),
                ("delta", "1e-5"),
                ("no_ledger", "true"),
                ("insecure_seed", "7"),
                ("force", "true"),
                ("user_col", "user"),
                ("target_col", "y"),
                ("feature_range", "-1"),
                ("feature_range", "1"),
                ("target_range", "-2"),
                ("target_range", "2"),
                ("release_metrics", "0.1"),
            ];
            let all = all
                .iter()
                .chain(&own)
                .map(|&(name, value)| (name, value.to_owned()));
            let all = fixed.into_iter().chain(all);
            all.fold(Given::default(), |given, (name, value)| {
                given.with(name, value)
            })
        };
        (command.run)(&seeded("alone", "ratings.csv"), &mut Silent, Place::Alone).unwrap();
        let alone = released(&folder.join("alone/model"));
        for n_shards in [1, 3] {
            let settings: Vec<Given> = (0..n_shards)
                .map(|_| seeded("by-run", "ratings.csv"))
                .collect();
            let mut ended = dealt(&command, &settings, &mut Silent, &plain).into_iter();
            ended.next().unwrap().unwrap();
            assert!(ended.all(|worker| matches!(worker, Err(Error::WorkerDone))));
            assert!(released(&folder.join("by-run/model")) == alone, "{own:?}");
        }
        deal(folder, 2, &shard_of(2));
        let held_out = |rows: &str| seeded("dealt", rows).with("held_out_users", "0.2");
        let said = with_tasks(&command, (2, Dealing::ById), &held_out).unwrap_err();
        assert!(said.to_string().contains("held_out_users"), "{said}");
        let settings = |rows: &str| seeded("dealt", rows);
        let made = with_tasks(&command, (2, Dealing::ById), &settings);
        if own.iter().any(|(name, _)| *name == "sampling_probability") {
            // users train when they are sampled, which a task that starts over cannot learn from a
            // list
            let said = made.unwrap_err().to_string();
            assert!(said.contains("train only in rounds"), "{said}");
            continue;
        }
        made.unwrap();
        assert!(released(&folder.join("dealt/model")) == alone, "{own:?}");
        let wrong = |id: &str| id.len() % 2;
        deal(folder, 2, &wrong);
        let said = with_tasks(&command, (2, Dealing::ById), &|rows| seeded("dealt", rows));
        assert!(said.unwrap_err().to_string().contains("shard"));
    }
}

#[test]
fn tasks_are_refused_users_of_another_shard_and_coordinators_any() {
    let folder = folder();
    let folder = folder.path();
    let more = |ratings: &str, own: &[(&'static str, String)]| {
        let all = [("ratings", path(folder, ratings))];
        given(&POOLED, folder, "model", &[&all, own].concat())
    };
    let alone = [("no_ledger", "true".to_owned())];
    let settings = |ratings: &str| more(ratings, &alone);
    let run = |dealing, settings: &dyn Fn(&str) -> Given| {
        let made = with_tasks(&POOLED, (2, dealing), settings);
        made.map_err(|error| error.to_string())
    };
    // a user in both shards
    let dealer = shard_of(2);
    deal(folder, 2, &|id| {
        if id == "u7" {
            1 - dealer(id)
        } else {
            dealer(id)
        }
    });
    let said = run(Dealing::ById, &settings).unwrap_err();
    assert!(said.contains("shard") && !said.contains("u7"), "{said}");
    assert!(!folder.join("model").exists());
    run(Dealing::Silos, &settings).unwrap();

    deal(folder, 2, &dealer);
    let file = || {
        [
            ("ledger", path(folder, "l.ledger")),
            ("new_ledger", "true".to_owned()),
        ]
        .to_vec()
    };
    let refused = [
        (alone.to_vec(), true, "an empty table"),
        (file(), false, "`same_data_set`"),
        (
            [&alone[..], &[("item_ids_are_public", "true".to_owned())]].concat(),
            false,
            "cannot be used with `items`",
        ),
    ];
    for (own, has_users, what) in refused {
        let own = [&own[..], &[("force", "true".to_owned())]].concat();
        let settings = |ratings: &str| {
            let ratings = if has_users { "ratings.csv" } else { ratings };
            more(ratings, &own)
        };
        let said = run(Dealing::ById, &settings).unwrap_err();
        assert!(said.contains(what), "{said}");
    }
    assert!(!folder.join("l.ledger").exists());
    let own = [
        &file()[..],
        &[
            ("force", "true".to_owned()),
            ("same_data_set", "true".to_owned()),
        ],
    ]
    .concat();
    run(Dealing::ById, &|ratings| more(ratings, &own)).unwrap();
    assert!(
        Ledger::audit(folder.join("l.ledger"))
            .unwrap()
            .releases
            .len()
            > 1
    );

    let no_items = of_train(&[("method", "pooled"), ("item_ids_are_public", "true")]);
    let settings = |ratings: &str| {
        let own = [
            ("ratings", path(folder, ratings)),
            ("no_ledger", "true".to_owned()),
        ];
        given(&no_items, folder, "other", &own)
    };
    let said = with_tasks(&no_items, (2, Dealing::ById), &settings)
        .unwrap_err()
        .to_string();
    assert!(said.contains("`items`"), "{said}");
}

#[test]
fn users_are_dealt_by_their_ids_and_those_of_another_shard_are_refused() {
    let users = dp_personal::data::LongTailRatings::new(30, 50, 600);
    let mut rng: chacha20::ChaCha8Rng = rand::SeedableRng::seed_from_u64(1);
    let ratings = users.generate(&mut rng).unwrap();
    let [own, other] = [0, 1].map(|number| {
        let shard = dp_personal::workers::Shard::new("r", number, 2).unwrap();
        let part = ratings.of_users(shard.owner());
        (shard, part)
    });
    for (shard, part) in [&own, &other] {
        let users = part.interactions().expose();
        assert!(users.n_users() > 0);
        shard.check(users).unwrap();
    }
    assert!(own.0.check(other.1.interactions().expose()).is_err());
    assert!(own.0.check(ratings.interactions().expose()).is_err());
}
