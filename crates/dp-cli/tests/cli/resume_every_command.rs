//! Every command that trains continues after a kill, and its model follows from its list of
//! releases.

use std::fs;
use std::time::{Duration, Instant};

use dp_accounting::{Certificate, Ledger};

use crate::personalize::samples;
use crate::support::{Sandbox, words};

/// A command that trains, on data in a separate folder.
struct Case {
    args: Vec<&'static str>,
    model: &'static str,
    /// Whether the whole plan is reserved from the ledger at once.
    whole: bool,
}

const TARGET: [&str; 6] = ["--delta", "1e-5", "--epsilon", "1", "--ledger", "l.ledger"];

impl Case {
    fn new(args: &[&'static str], model: &'static str, whole: bool) -> Self {
        let args = [args, &TARGET].concat();
        Self { args, model, whole }
    }

    fn all() -> Vec<Self> {
        let factors = "dp-model/item_factors.safetensors";
        let shared = "dp-model/shared.safetensors";
        let federate = ["federate", "rows.csv", "--rounds", "12"];
        vec![
            Self::new(&["train", "ratings.csv", "--steps", "12"], factors, false),
            Self::new(
                &words("train ratings.csv --method am-ssp --items items.csv"),
                factors,
                false,
            ),
            Self::new(
                &words("train ratings.csv --feedback implicit --method popularity"),
                factors,
                false,
            ),
            Self::new(
                &words("tune ratings.csv --try dim=2 --try dim=3,reg=2"),
                factors,
                false,
            ),
            Self::new(
                &words("personalize rows.csv --rank 1 --target-range -9,9"),
                "dp-model/subspace.safetensors",
                false,
            ),
            Self::new(
                &[&federate[..], &["--alpha-grid", "1"]].concat(),
                shared,
                false,
            ),
            Self::new(
                &[&federate[..], &["--alpha-grid", "0,1,inf"]].concat(),
                shared,
                true,
            ),
        ]
    }

    fn sandbox() -> Sandbox {
        let sandbox = Sandbox::with_ratings();
        sandbox.write("rows.csv", samples(120));
        let mut items = "item,title,genres\n".to_owned();
        for item in 0..25 {
            items.push_str(&format!("item-{item},Title {item},genre-{}\n", item % 4));
        }
        sandbox.write("items.csv", items);
        sandbox
    }

    fn run(&self, sandbox: &Sandbox, more: &[&str]) -> crate::support::Run {
        sandbox.dp(&[&self.args[..], more].concat())
    }

    /// Runs until the list has `n` entries or the run has ended, and kills it.
    fn is_killed_after(&self, sandbox: &Sandbox, n: usize, more: &[&str]) -> bool {
        let mut child = sandbox
            .command()
            .args(&self.args)
            .args(more)
            .spawn()
            .unwrap();
        let give_up = Instant::now() + Duration::from_secs(60);
        while Instant::now() < give_up && child.try_wait().unwrap().is_none() {
            let list = fs::read(sandbox.path(".dp-model.partial/releases.list"));
            if list.is_ok_and(|list| n_entries(&list) >= n) {
                break;
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        !sandbox.exists("dp-model")
    }
}

fn n_entries(list: &[u8]) -> usize {
    String::from_utf8_lossy(list)
        .matches("\"previous_hash\"")
        .count()
}

fn n_paid(sandbox: &Sandbox) -> usize {
    Ledger::audit(sandbox.path("l.ledger"))
        .unwrap()
        .releases
        .len()
}

#[test]
fn a_killed_run_of_every_command_goes_on_and_its_model_is_recomputed() {
    let mut all_kills = 0;
    for case in Case::all() {
        let whole = Case::sandbox();
        case.run(&whole, &[]).exits(0);
        let uninterrupted = n_paid(&whole);
        let sandbox = Case::sandbox();
        // room to charge again what a kill lost, or a ledger for this run alone
        let more = || {
            let is_made = sandbox.exists("l.ledger");
            let more: &[&str] = match (case.whole, is_made) {
                (true, true) => &["--resume"],
                (true, false) => &["--resume", "--new-ledger"],
                (false, _) => &["--resume", "--ledger-epsilon", "4"],
            };
            more
        };
        let mut n_kills = 0;
        for n in [1, 2, 4] {
            n_kills += usize::from(case.is_killed_after(&sandbox, n, more()));
            let marks = [".released", ".moving"].map(|mark| format!(".dp-model.partial/{mark}"));
            if sandbox.exists("dp-model") || marks.iter().any(|mark| sandbox.exists(mark)) {
                break;
            }
        }
        if !sandbox.exists("dp-model") {
            let run = case.run(&sandbox, more());
            // the kill may have happened after the model was written, or between charge and list
            // without room for a second charge
            let ended = [0, 7].contains(&run.code)
                || (case.whole && run.stderr.contains("handed out once"));
            assert!(ended, "{:?}: {} {}", case.args, run.code, run.stderr);
            if ![0, 7].contains(&run.code) {
                continue;
            }
        }
        all_kills += n_kills;
        let paid = n_paid(&sandbox);
        // matrices and right-hand sides are charged in pairs
        let most = uninterrupted + 2 * n_kills;
        assert!(
            (uninterrupted..=most).contains(&paid),
            "{:?}: {paid}",
            case.args
        );
        let verify = ["verify", "dp-model", "--ledger", "l.ledger", "--recompute"];
        let verified = sandbox.dp(&verify).exits(0);
        verified.prints(&["bit for bit"]);
        assert!(sandbox.exists("dp-model-internal/internal-releases.list"));
        assert!(!sandbox.exists("dp-model/held.json") && !sandbox.exists("dp-model/releases.list"));
    }
    assert!(all_kills > 0);
}

#[test]
fn a_tampered_list_or_model_differs_and_another_list_is_refused() {
    for case in Case::all() {
        let sandbox = Case::sandbox();
        case.run(&sandbox, &["--publish-releases"]).exits(0);
        let recompute = |more: &[&str]| {
            let args = ["verify", "dp-model", "--recompute", "--json"];
            sandbox.dp(&[&args[..], more].concat())
        };
        let same = recompute(&[]).exits(0).json();
        assert_eq!(same["recomputed"]["result"], "same", "{:?}", case.args);

        let list = sandbox.read("dp-model/releases.list");
        let differs = |tampered: &[u8]| {
            sandbox.write("tampered.list", tampered);
            let found = recompute(&["--releases", "tampered.list"]).exits(6).json();
            assert_eq!(found["recomputed"]["result"], "differs", "{:?}", case.args);
        };
        // bytes after the last release: in an internal list no other check reads them
        differs(&[&list[..], b"{"].concat());
        let mut tampered = list.clone();
        let at = tampered.len() - 3;
        tampered[at] ^= 1;
        differs(&tampered);
        sandbox.write("dp-model/releases.list", &tampered);
        recompute(&[])
            .exits(6)
            .says(&["releases.list is not the file"]);
        sandbox.write("dp-model/releases.list", &list);

        // a run of the same settings with other releases, and one of other settings
        let again = words("--out again --ledger-epsilon 9 --ledger m.ledger");
        let other: Vec<&str> = case.args[..case.args.len() - 2]
            .iter()
            .chain(&again)
            .copied()
            .collect();
        sandbox.dp(&other).exits(0);
        let found = recompute(&["--releases", "again-internal/internal-releases.list"])
            .exits(6)
            .json();
        assert_eq!(found["recomputed"]["result"], "differs", "{:?}", case.args);
        let (first, text) = (
            list.iter().position(|&b| b == b'\n').unwrap(),
            String::from_utf8_lossy(&list),
        );
        let run = text[..first].split("\"run\":\"").nth(1).unwrap()[..64].to_owned();
        let mut foreign = list.clone();
        let at = text.find(&run).unwrap();
        foreign[at..at + 64].copy_from_slice(&[b'0'; 64]);
        sandbox.write("foreign.list", foreign);
        let found = recompute(&["--releases", "foreign.list"]).exits(4).json();
        assert_eq!(found["recomputed"]["result"], "cannot", "{:?}", case.args);

        // a model with one changed bit, and a certificate issued for it
        let mut model = sandbox.read(case.model);
        *model.last_mut().unwrap() ^= 1;
        sandbox.write(case.model, &model);
        recompute(&[]).exits(6);
        let text = sandbox.text("dp-model/certificate.json");
        let mut certificate = Certificate::from_json(&text).unwrap();
        let name = case.model.strip_prefix("dp-model/").unwrap();
        certificate.artifacts.retain(|file| file.name != name);
        let certificate = certificate.with_artifact(name, &model);
        sandbox.issue("dp-model", &certificate);
        let found = recompute(&[]).exits(6).json();
        assert_eq!(found["recomputed"]["result"], "differs", "{:?}", case.args);

        fs::remove_file(sandbox.path("dp-model/report.json")).unwrap();
        recompute(&[]).exits(6);
    }
}

#[test]
fn users_who_train_only_when_asked_are_not_resumed_and_nothing_is_paid() {
    let args = words("federate rows.csv --rounds 40 --alpha-grid 1");
    let args = [&args[..], &["--sampling-probability", "0.5"]].concat();
    let case = Case::new(&args, "dp-model/shared.safetensors", true);
    let sandbox = Case::sandbox();
    if case.is_killed_after(&sandbox, 4, &["--new-ledger"]) {
        let ledger = sandbox.read("l.ledger");
        case.run(&sandbox, &["--resume"])
            .exits(2)
            .says(&["hint: with sampled users"]);
        assert_eq!(sandbox.read("l.ledger"), ledger);
    }
    let anew = ["--ledger", "m.ledger"];
    let args: Vec<&str> = case.args[..case.args.len() - 2]
        .iter()
        .chain(&anew)
        .copied()
        .collect();
    sandbox.dp(&args).exits(0);
    sandbox.dp(&["verify", "dp-model", "--recompute"]).exits(0);
}
