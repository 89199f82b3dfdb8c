//! The output folder appears whole or not at all.

use std::fs;
use std::path::Path;

use crate::support::{Run, Sandbox, USER, catalogue, names_in, ratings, words};

const FILES: [&str; 8] = [
    "certificate.json",
    "item_factors.safetensors",
    "items.csv",
    "manifest.json",
    "model-card.json",
    "model-card.md",
    "report.json",
    "report.md",
];
const INTERNAL: [&str; 4] = [
    "internal-releases.list",
    "internal-users.csv",
    "internal.json",
    "internal.md",
];

#[test]
fn a_run_leaves_the_documented_files_and_nothing_else() {
    let sandbox = Sandbox::with_model();
    let names = ["dp-model", "dp-model-internal", "ratings.csv"];
    assert_eq!(sandbox.names(), names);
    assert_eq!(names_in(&sandbox.path("dp-model")), FILES);
    assert_eq!(names_in(&sandbox.path("dp-model-internal")), INTERNAL);
}

#[test]
fn parent_folders_are_made() {
    let sandbox = Sandbox::with_ratings();
    sandbox.train(&["--out", "models/2026/monday"]).exits(0);
    assert_eq!(names_in(&sandbox.path("models/2026/monday")), FILES);
    assert_eq!(
        names_in(&sandbox.path("models/2026")),
        ["monday", "monday-internal"]
    );
}

#[test]
fn an_existing_folder_is_replaced_only_when_asked() {
    let sandbox = Sandbox::with_ratings();
    fs::create_dir(sandbox.path("dp-model")).unwrap();
    sandbox.write("dp-model/diary.txt", "mine");
    let spend = ["--ledger", "l.ledger"];
    sandbox
        .train(&spend)
        .exits(7)
        .says(&["dp-model exists", "--force"]);
    let forced = ["--ledger", "l.ledger", "--force"];
    let refused = ["dp-model is not replaced", "certificate.json"];
    sandbox.train(&forced).exits(7).says(&refused);
    assert_eq!(names_in(&sandbox.path("dp-model")), ["diary.txt"]);
    assert!(!sandbox.exists("l.ledger"), "paid for nothing");

    // what lies beside released files goes with them
    sandbox.write("dp-model/certificate.json", "{}");
    sandbox.train(&["--ledger", "l.ledger", "--force"]).exits(0);
    assert_eq!(names_in(&sandbox.path("dp-model")), FILES);
    let kept = ["l.ledger", "l.ledger.key", "l.ledger.users"];
    let names = [
        &["dp-model", "dp-model-internal"],
        &kept[..],
        &["ratings.csv"],
    ]
    .concat();
    assert_eq!(sandbox.names(), names);
    // figures of another run do not stay beside the model, nor go unasked
    fs::remove_dir_all(sandbox.path("dp-model")).unwrap();
    fs::remove_dir_all(sandbox.path("dp-model-internal")).unwrap();
    fs::create_dir(sandbox.path("dp-model-internal")).unwrap();
    sandbox.write("dp-model-internal/notes.txt", "mine");
    sandbox
        .train(&[])
        .exits(7)
        .says(&["dp-model-internal exists", "--force"]);
    let refused = ["dp-model-internal is not replaced"];
    sandbox.train(&["--force"]).exits(7).says(&refused);
    sandbox.write("dp-model-internal/internal.md", "| users | 40 |");
    sandbox.train(&["--force"]).exits(0);
    assert_eq!(names_in(&sandbox.path("dp-model-internal")), INTERNAL);
}

#[test]
fn a_file_in_the_place_of_the_folder_is_kept_too() {
    let sandbox = Sandbox::with_ratings();
    sandbox.write("dp-model", "a file");
    sandbox.train(&[]).exits(7).says(&["dp-model exists"]);
    assert_eq!(sandbox.read("dp-model"), b"a file");
    sandbox
        .train(&["--out", "dp-model/inside"])
        .exits(7)
        .says(&["cannot write dp-model"]);
}

#[test]
fn replacing_never_deletes_what_the_run_needs() {
    let sandbox = Sandbox::with_model();
    fs::create_dir(sandbox.path("work")).unwrap();
    fs::create_dir(sandbox.path("work-internal")).unwrap();
    sandbox.write("work-internal/ratings.csv", "x");
    for name in ["ratings.csv", "items.csv", "l.ledger"] {
        sandbox.write(&format!("work/{name}"), "x");
    }
    for args in [
        ["train", "work/ratings.csv"].as_slice(),
        &["train", "ratings.csv", "--items", "work/items.csv"],
        &["train", "ratings.csv", "--ledger", "work/l.ledger"],
        &["train", "ratings.csv", "--ledger", "work/new.ledger"],
        &["train", "work-internal/ratings.csv"],
    ] {
        let rest = words("--epsilon 1 --delta 1e-5 --out work --force");
        let run = sandbox.dp(&[args, rest.as_slice()].concat());
        run.exits(2)
            .says(&["is inside the output folder work", "another --out"]);
    }
    sandbox.train(&["--out", ".", "--force"]).exits(2);
    let whole = sandbox.path("").to_str().unwrap().to_owned();
    sandbox
        .train(&["--out", whole.trim_end_matches('/'), "--force"])
        .exits(2);
    assert_eq!(
        names_in(&sandbox.path("work")),
        ["items.csv", "l.ledger", "ratings.csv"]
    );
}

#[test]
fn a_folder_that_holds_a_ledger_is_never_replaced() {
    for place in ["dp-model", "dp-model-internal", "dp-model/books"] {
        let sandbox = Sandbox::with_model();
        fs::create_dir_all(sandbox.path(place)).unwrap();
        let ledger = format!("{place}/l.ledger");
        sandbox.train(&["--out", "x", "--ledger", &ledger]).exits(0);
        sandbox.train(&["--out", "y"]).exits(0);
        for rest in ["", ".key", ".users"] {
            let file = format!("{ledger}{rest}");
            let said = [&file[..], "belongs to a ledger"];
            let force = sandbox.train(&["--force"]).exits(7);
            // the first one of them that is met
            force.says(&[place, said[1]]);
            if !place.ends_with("internal") {
                let publish = ["publish", "y", "dp-model", "--force"];
                sandbox.dp(&publish).exits(7).says(&[said[1]]);
            }
            assert!(sandbox.exists(&file));
            fs::remove_file(sandbox.path(&file)).unwrap();
        }
        sandbox.train(&["--force"]).exits(0);
    }
}

#[test]
fn what_a_killed_run_left_is_cleared_away() {
    let sandbox = Sandbox::with_ratings();
    fs::create_dir(sandbox.path(".dp-model.partial")).unwrap();
    sandbox.write(".dp-model.partial/item_factors.safetensors", "half");
    sandbox.train(&[]).exits(0);
    let names = ["dp-model", "dp-model-internal", "ratings.csv"];
    assert_eq!(sandbox.names(), names);
    sandbox.dp(&["verify", "dp-model"]).exits(0);
}

#[test]
fn whoever_completes_a_killed_run_records_what_its_ledger_has() {
    let sandbox = Sandbox::with_ratings();
    sandbox.train(&["--ledger", "l.ledger"]).exits(0);
    let certificate = sandbox.text("dp-model/certificate.json");
    killed(&sandbox, "found", &certificate);
    // written before the payment
    let mut users = sandbox.value("l.ledger.users");
    users["seen"]["n_releases"] = 0.into();
    users["seen"]["last_release"] = serde_json::Value::Null;
    sandbox.write("l.ledger.users", users.to_string());
    let again = ["--ledger", "l.ledger", "--out", "found"];
    sandbox.train(&again).exits(7);
    assert_eq!(sandbox.value("l.ledger.users")["seen"]["n_releases"], 13);
    let ledger = sandbox.text("l.ledger");
    let older: String = ledger.split_inclusive('\n').take(3).collect();
    sandbox.write("l.ledger", older);
    let verify = ["verify", "found/certificate.json", "--ledger", "l.ledger"];
    sandbox.dp(&verify).exits(5);
}

/// `dp train` under a limit on the size of any file it writes, as a full disk is met: the write
/// fails half-way. In blocks of 512 or 1024 bytes, as the shell likes.
#[cfg(unix)]
pub(crate) fn train_with_little_space(sandbox: &Sandbox, blocks: &str, more: &[&str]) -> Run {
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    let mut command = std::process::Command::new("sh");
    command.current_dir(sandbox.path("")).args(["-c", &script]);
    command.env("DP_NO_LEDGER", "1"); // where no ledger is named
    command.env("DP_ITEM_IDS_ARE_PUBLIC", "1"); // where no catalogue is
    command.arg(Path::new(env!("CARGO_BIN_EXE_dp")));
    command.args(["train", "ratings.csv", "--epsilon", "1", "--delta", "1e-5"]);
    command.args(more).output().unwrap().into()
}

#[test]
#[cfg(unix)]
fn a_full_disk_leaves_no_half_written_model_and_the_spend_stays_spent() {
    let sandbox = Sandbox::with_ratings();
    let title = "t".repeat(100);
    let items = (0..18_000).map(|item| format!("item-{item},{title}\n"));
    sandbox.write(
        "items.csv",
        "item,title\n".to_owned() + &items.collect::<String>(),
    );
    let args =
        words("--items items.csv --ledger l.ledger --ledger-epsilon 1 --steps 1 --scale-share 0");
    let n_paid = || sandbox.text("l.ledger").matches("\"label\"").count();
    let kept = ["l.ledger", "l.ledger.key", "l.ledger.users"];
    let left = [
        &[".dp-model.partial", "items.csv"],
        &kept[..],
        &["ratings.csv"],
    ]
    .concat();
    let partial = |name: &str| sandbox.exists(&format!(".dp-model.partial/{name}"));
    // the first release does not fit into its list, so nobody has seen it
    train_with_little_space(&sandbox, "100", &args)
        .exits(7)
        .says(&["releases.list"]);
    assert_eq!(sandbox.names(), left);
    let hidden = names_in(&sandbox.path(".dp-model.partial"));
    assert_eq!(hidden, [".lock", ".paid", "releases.list", "run.json"]);
    assert_eq!(n_paid(), 1);
    sandbox.train(&args).exits(3); // it stays paid, and there is no room for a whole run beside it
    assert_eq!(n_paid(), 1);

    // where the list of 440 kB fits and the catalogue of 2 MB does not, all is paid and half a catalogue does not stay
    for file in kept {
        fs::remove_file(sandbox.path(file)).unwrap();
    }
    train_with_little_space(&sandbox, "1800", &args)
        .exits(7)
        .says(&["items.csv"]);
    assert_eq!(sandbox.names(), left);
    assert!(partial("internal/internal-releases.list"));
    assert!(!partial("items.csv") && !partial("certificate.json"));
    assert_eq!(n_paid(), 4, "counts, weights, matrix and right-hand sides");
    let resumed = [&args[..], &["--resume"]].concat();
    sandbox.train(&resumed).exits(0);
    assert_eq!(n_paid(), 4);
    assert_eq!(names_in(&sandbox.path("dp-model")), FILES);
    assert_eq!(sandbox.names()[..2], ["dp-model", "dp-model-internal"]);
}

#[test]
#[cfg(unix)]
fn a_full_disk_after_the_release_is_told_with_the_model_that_was_paid_for() {
    let sandbox = Sandbox::new();
    let long = format!("{USER}{}-", "u".repeat(400));
    sandbox.write("ratings.csv", ratings(1500, 25, 10).replace(USER, &long));
    let args = words("--ledger l.ledger --ledger-epsilon 1");
    train_with_little_space(&sandbox, "400", &args)
        .exits(7)
        .says(&[
            "internal-users.csv: ",
            "the model is complete in dp-model, and what it cost stays spent",
            "there is nothing to resume",
            "dp evaluate --save",
        ]);
    sandbox
        .dp(&words("verify dp-model --ledger l.ledger"))
        .exits(0);
    let evaluate = words("evaluate ratings.csv --model dp-model --save --ledger l.ledger");
    sandbox.dp(&evaluate).exits(0);
}

#[test]
#[cfg(unix)]
fn a_full_disk_does_not_harm_the_model_to_be_replaced() {
    let sandbox = Sandbox::with_model();
    sandbox.write("items.csv", catalogue(4_000));
    let before = sandbox.read("dp-model/certificate.json");
    let run = train_with_little_space(&sandbox, "12", &["--items", "items.csv", "--force"]);
    run.exits(7);
    assert_eq!(sandbox.read("dp-model/certificate.json"), before);
    let names = ["dp-model", "dp-model-internal", "items.csv", "ratings.csv"];
    assert_eq!(sandbox.names(), names);
    sandbox.dp(&["verify", "dp-model"]).exits(0);
}

#[test]
#[cfg(unix)]
fn a_ledger_that_cannot_be_written_releases_nothing() {
    let sandbox = Sandbox::new();
    sandbox.write("ratings.csv", ratings(8, 25, 10));
    // the first line of the ledger and the files beside it fit, and the line of a release does not
    let name = "d".repeat(60_000);
    let args = ["--ledger", "l.ledger", "--new-ledger", "--data-set", &name];
    let run = train_with_little_space(&sandbox, "160", &args);
    run.exits(5).says(&["l.ledger"]);
    assert!(!sandbox.exists("dp-model"));
    let kept = ["l.ledger", "l.ledger.key", "l.ledger.users", "ratings.csv"];
    assert_eq!(sandbox.names(), kept);
}

#[test]
#[cfg(unix)]
fn the_internal_report_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let sandbox = Sandbox::with_model();
    let mode = |name: &str| {
        fs::metadata(sandbox.path(name))
            .unwrap()
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(mode("dp-model-internal"), 0o700);
    for name in INTERNAL {
        assert_eq!(mode(&format!("dp-model-internal/{name}")), 0o600, "{name}");
    }
    assert_ne!(mode("dp-model/report.md"), 0o600);
}

/// What a process leaves that is killed while it measures a model of the given folder.
fn killed(sandbox: &Sandbox, model: &str, certificate: &str) {
    let left = format!(".{model}.partial");
    fs::create_dir_all(sandbox.path(&left).join("internal")).unwrap();
    for (name, text) in [
        (".lock", ""),
        (".paid", ""),
        (".released", ""),
        ("certificate.json", certificate),
        ("internal/internal.json", "{\"schema"),
    ] {
        sandbox.write(&format!("{left}/{name}"), text);
    }
}

#[test]
fn every_command_that_pays_first_looks_for_what_a_killed_run_released() {
    let sandbox = Sandbox::with_ratings();
    sandbox.write("items.csv", "item,title,genres\nitem-1,a,x\n");
    sandbox.write("b.csv", "column,lower,upper\nrating,0,5\nitem,0,60\n");
    let private = ["--epsilon", "1", "--delta", "1e-5", "--ledger", "l.ledger"];
    // no room for another run, as after a run that paid with a ledger of its own
    sandbox.train(&private[4..]).exits(0);
    let (ledger, certificate) = (
        sandbox.read("l.ledger"),
        sandbox.text("dp-model/certificate.json"),
    );
    let featured = ["--items", "items.csv", "--method", "am-ssp"];
    let rows = words("--user-col user --target-col rating --bounds b.csv");
    for (command, more) in [
        ("train", &[][..]),
        ("train", &featured),
        ("tune", &["--try", "dim=2", "--try", "dim=3"]),
        ("personalize", &["--rank", "1"]),
        ("federate", &rows),
    ] {
        killed(&sandbox, "found", &certificate);
        let args = [
            &[command, "ratings.csv", "--out", "found"],
            &private[..],
            more,
        ]
        .concat();
        let run = sandbox.dp(&args).exits(7);
        run.says(&["the model is now in found", "nothing was paid"]);
        assert_eq!(names_in(&sandbox.path("found")), ["certificate.json"]);
        assert_eq!(names_in(&sandbox.path("found-internal")), [""; 0]);
        fs::remove_dir(sandbox.path("found-internal")).unwrap();
        assert_eq!(sandbox.read("l.ledger"), ledger);
        fs::remove_dir_all(sandbox.path("found")).unwrap();

        // not where the ledger has forgotten it, and not where nobody says which ledger it was
        killed(&sandbox, "found", &certificate);
        let older = String::from_utf8(ledger.clone()).unwrap();
        let older: String = older.split_inclusive('\n').take(2).collect();
        sandbox.write("l.ledger", older);
        let missing = [
            "l.ledger lacks releases",
            ".found.partial",
            "do not publish",
        ];
        sandbox.dp(&args).exits(5).says(&missing);
        let mut alone = args.clone();
        alone.retain(|arg| !arg.contains("ledger"));
        sandbox.dp(&alone).exits(2).says(&["give --ledger"]);
        assert!(!sandbox.exists("found") && sandbox.exists(".found.partial/certificate.json"));
        sandbox.write("l.ledger", &ledger);
        fs::remove_dir_all(sandbox.path(".found.partial")).unwrap();
    }
}

#[cfg(unix)]
#[test]
fn links_in_place_of_the_hidden_folder_are_not_followed() {
    let sandbox = Sandbox::with_ratings();
    let link = |to: &str, at: &str| {
        std::os::unix::fs::symlink(sandbox.path(to), sandbox.path(at)).unwrap();
    };
    sandbox.write("precious.txt", "precious");
    fs::create_dir(sandbox.path("folder")).unwrap();
    sandbox.write("folder/kept.txt", "kept");
    link("folder", ".dp-model.partial");
    sandbox.train(&[]).exits(7).says(&[".dp-model.partial"]);
    assert_eq!(sandbox.read("folder/kept.txt"), b"kept");
    fs::remove_file(sandbox.path(".dp-model.partial")).unwrap();
    fs::create_dir(sandbox.path(".dp-model.partial")).unwrap();
    link("precious.txt", ".dp-model.partial/.lock");
    sandbox.train(&[]).exits(7).says(&[".lock"]);
    assert_eq!(sandbox.read("precious.txt"), b"precious");
}
