//! The ranges stated in the table of settings, compared with what commands reject before they read
//! anything.

use dp_personal::settings::{
    FederateSettings, Kind, PersonalizeSettings, Range, Setting, Settings, TrainSettings,
    TuneSettings,
};

use crate::support::Sandbox;

/// Other settings that a setting requires.
const NEEDS: [(&str, &str); 7] = [
    ("head_fraction", "--feedback implicit"),
    ("ledger_epsilon", "--ledger l"),
    ("ledger_delta", "--ledger l --new-ledger"),
    ("gradient_clip", "--method gradient"),
    ("n_features", "--format leaf --intercept none"),
    ("min_items", "--method am-ssp --items items.csv"),
    ("learning_rate", "--method gradient"),
];

/// Numbers just outside of a range, and its ends.
fn probes(range: Range, kind: Kind) -> (Vec<f64>, Vec<f64>) {
    let (mut outside, mut inside) = (Vec::new(), Vec::new());
    for ((end, is_in), away) in [(range.low, -1.0), (range.high, 1.0)] {
        if is_in {
            inside.push(end);
        }
        if end.is_finite() {
            let beyond = if kind == Kind::Whole {
                end + away
            } else {
                end + away * 1e-3 * end.abs().max(1e-3)
            };
            outside.push(if is_in { beyond } else { end });
        }
    }
    let fits = |x: &f64| kind != Kind::Whole || *x >= 0.0;
    outside.retain(fits);
    (outside, inside)
}

/// The command line of a run on a file that does not exist, with this value of one setting.
fn line(command: &str, setting: &Setting, value: f64) -> Vec<String> {
    let mut words = vec![command.to_owned(), "nowhere.csv".to_owned()];
    let usual: &[(&str, &str)] = match command {
        "personalize" => &[("rank", "--rank 1")],
        // settings that candidates set themselves are ignored
        "tune" if setting.name == "dim" => &[("", "--try reg=1 --try reg=2")],
        "tune" => &[("", "--try dim=1 --try dim=2")],
        _ => &[],
    };
    let target = [("epsilon", "--epsilon 1"), ("delta", "--delta 1e-5")];
    for (name, given) in usual.iter().chain(&target) {
        if *name != setting.name {
            words.extend(given.split(' ').map(str::to_owned));
        }
    }
    let needs = NEEDS.iter().filter(|(name, _)| *name == setting.name);
    for (_, given) in needs.filter(|_| command != "federate" || setting.name != "learning_rate") {
        words.extend(given.split(' ').map(str::to_owned));
    }
    words.extend([setting.flag(), value.to_string()]);
    words
}

#[test]
fn commands_refuse_what_the_table_says_they_refuse() {
    let sandbox = Sandbox::new();
    sandbox.write("items.csv", "item,genre\na,x\nb,x\n");
    let mut n_probed = 0;
    for (command, table) in [
        ("train", TrainSettings::table()),
        ("tune", TuneSettings::table()),
        ("personalize", PersonalizeSettings::table()),
        ("federate", FederateSettings::table()),
    ] {
        for setting in &table {
            // `dp tune` does not support item features
            let is_elsewhere = command == "tune" && setting.name == "min_items";
            let Some(range) = setting.range.filter(|_| !is_elsewhere) else {
                continue;
            };
            let (outside, inside) = probes(range, setting.kind);
            for value in outside {
                let words = line(command, setting, value);
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                sandbox.run(&words).exits(2).says(&[&setting.flag()]);
                n_probed += 1;
            }
            // planning a million rounds takes half a minute
            let is_slow = command == "federate" && setting.name == "n_rounds";
            for value in inside.into_iter().take(if is_slow { 1 } else { 2 }) {
                let words = line(command, setting, value);
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let run = sandbox.run(&words);
                let about_it = format!("{} is ", setting.flag());
                assert!(!run.stderr.contains(&about_it), "{words:?}: {}", run.stderr);
            }
        }
    }
    assert!(n_probed > 60, "{n_probed}");
}
