//! Settings from a file and from the environment.

use crate::support::{Sandbox, words};

const NIGHTLY: &str = "\
[train]
ratings = \"ratings.csv\"
epsilon = 1.0
delta = 1e-5
steps = 3
no-split = true

[verify]
certificate = \"dp-model\"
";

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::with_ratings();
    sandbox.write("nightly.toml", NIGHTLY.as_bytes());
    sandbox
}

/// The settings that `dp train ARGS --print-config` would train with.
fn printed(sandbox: &Sandbox, args: &[&str], env: &[(&str, &str)]) -> toml::Table {
    let all = [&["train"], args, &["--print-config"]].concat();
    let run = sandbox.run_with(&all, env).exits(0);
    let table: toml::Table = run.stdout.parse().expect("what is printed is TOML");
    table["train"].as_table().unwrap().clone()
}

#[test]
fn a_file_gives_what_the_command_line_leaves_out() {
    let sandbox = sandbox();
    sandbox.dp(&["train", "--config", "nightly.toml"]).exits(0);
    let run = sandbox.dp(&["--config", "nightly.toml", "verify"]).exits(0);
    run.prints(&["certificate.json holds"]);
}

#[test]
fn flags_count_before_the_environment_and_that_before_the_file() {
    let sandbox = sandbox();
    let config = ["--config", "nightly.toml"];
    for (flag, env, expected) in [
        (None, None, 1.0),
        (None, Some("2"), 2.0),
        (Some("3"), Some("2"), 3.0),
        (Some("3"), None, 3.0),
    ] {
        let mut args = config.to_vec();
        args.extend(flag.iter().flat_map(|value| ["--epsilon", value]));
        let env: Vec<_> = env.iter().map(|value| ("DP_EPSILON", *value)).collect();
        let settings = printed(&sandbox, &args, &env);
        let found = &settings["epsilon"];
        let found = found.as_float().or(found.as_integer().map(|n| n as f64));
        assert_eq!(found, Some(expected), "{flag:?} {env:?}");
        assert_eq!(settings["ratings"].as_str(), Some("ratings.csv"));
    }
    // switches, files of settings and arguments without a flag too
    let env = [
        ("DP_CONFIG", "nightly.toml"),
        ("DP_NO_SPLIT", "0"),
        ("DP_RATINGS", "b.csv"),
    ];
    let settings = printed(&sandbox, &[], &env);
    assert!(!settings.contains_key("no-split"), "{settings}");
    assert_eq!(settings["ratings"].as_str(), Some("b.csv"));
}

#[test]
fn a_flag_displaces_what_conflicts_with_it() {
    let sandbox = sandbox();
    let args = ["--config", "nightly.toml", "--split-seed", "4"];
    let settings = printed(&sandbox, &args, &[]);
    assert_eq!(settings["split-seed"].as_integer(), Some(4));
    assert!(!settings.contains_key("no-split"), "{settings}");
}

#[test]
fn printed_settings_read_back_as_the_same() {
    let sandbox = sandbox();
    let args = ["--label-center=-1.5", "--reg", "1e-7", "--out", "1e5"];
    let args = [&args[..], &["--config", "nightly.toml"]].concat();
    let all = [&["train"], &args[..], &["--print-config"]].concat();
    let first = sandbox.dp(&all).exits(0).stdout;
    sandbox.write("again.toml", first.as_bytes());
    let again = sandbox.dp(&["train", "--config", "again.toml", "--print-config"]);
    assert_eq!(again.exits(0).stdout, first);
    let table: toml::Table = first.parse().unwrap();
    assert_eq!(table["train"]["label-center"].as_float(), Some(-1.5));
    assert_eq!(table["train"]["reg"].as_float(), Some(1e-7));
    assert_eq!(table["train"]["out"].as_str(), Some("1e5"));
    assert_eq!(table["train"]["no-split"].as_bool(), Some(true));
}

#[test]
fn printing_needs_no_required_argument_and_does_nothing() {
    let sandbox = Sandbox::new();
    for command in [
        "train",
        "tune",
        "personalize",
        "account",
        "audit",
        "demo",
        "verify",
    ] {
        let run = sandbox.dp(&[command, "--print-config"]).exits(0);
        run.prints(&[&format!("[{command}]")]);
        run.stdout.parse::<toml::Table>().expect("TOML");
    }
    assert!(sandbox.names().is_empty());
}

#[test]
fn commands_of_a_command_have_tables_of_their_own() {
    let sandbox = Sandbox::with_ratings();
    let text = "\
[ledger.create]
data-set = \"ratings\"
epsilon = 4.0

[ledger.show]
file = \"all.ledger\"

[nightly.run]
night = 3
";
    sandbox.write("c.toml", text);
    let create = words("ledger create all.ledger --delta 1e-5 --config c.toml");
    sandbox.run(&create).exits(0);
    let shown = sandbox.run(&words("--config c.toml ledger show --json"));
    assert_eq!(shown.exits(0).json()["epsilon"], 4.0);
    // flags override the environment, and that the file
    let line = words("nightly run state ratings.csv --config c.toml --print-config");
    for (env, flag, night) in [
        (None, None, 3),
        (Some("5"), None, 5),
        (Some("5"), Some("7"), 7),
    ] {
        let env: Vec<_> = env.iter().map(|value| ("DP_NIGHT", *value)).collect();
        let flag: Vec<_> = flag.iter().flat_map(|value| ["--night", value]).collect();
        let run = sandbox
            .run_with(&[&line, &flag[..]].concat(), &env)
            .exits(0);
        let table: toml::Table = run.stdout.parse().expect("TOML");
        let found = &table["nightly"]["run"];
        assert_eq!(found["night"].as_integer(), Some(night), "{found}");
        assert_eq!(found["ratings"].as_str(), Some("ratings.csv"));
    }
    for (text, says) in [
        ("[ledger]\nepsilon = 1", "`ledger.epsilon` is not a command"),
        ("[nightly.show]", "`nightly.show` is not a command"),
        (
            "nightly.run = 1",
            "`nightly.run` must be a table: [nightly.run]",
        ),
        (
            "[ledger.create]\nfile = \"a\"\nkind = \"mixed\"\ntotal = 1",
            "[ledger.create] has no setting `total`",
        ),
    ] {
        sandbox.write("c.toml", text);
        sandbox.run(&create).exits(2).says(&["c.toml: ", says]);
    }
}

#[test]
fn bad_files_are_refused_by_what_is_wrong_with_them() {
    let sandbox = Sandbox::with_ratings();
    for (text, code, parts) in [
        (
            "[train]\nepsilom = 1",
            2,
            &["c.toml: [train] has no setting `epsilom`", "epsilon"] as &[_],
        ),
        (
            "[trian]\nepsilon = 1",
            2,
            &["`trian` is not a command", "[train]"],
        ),
        ("epsilon = 1", 2, &["`epsilon` is not a command"]),
        ("train = 1", 2, &["`train` must be a table"]),
        ("[train\n", 2, &["c.toml: TOML parse error", "line 1"]),
        (
            "[train]\nepsilon = [[1]]",
            2,
            &["`epsilon` is [[1]], must be"],
        ),
        (
            "[train]\nno-split = \"yes\"",
            2,
            &["`no-split` is \"yes\", must be true or false"],
        ),
        (
            "[train]\nsteps = \"many\"",
            2,
            &[
                "'many' for '--steps",
                "note: --steps comes from c.toml, [train]",
            ],
        ),
        ("[train]\nepsilon = -1", 2, &["--epsilon is -1"]),
    ] {
        sandbox.write("c.toml", text.as_bytes());
        let args = words("train ratings.csv --delta 1e-5 --config c.toml");
        sandbox.dp(&args).exits(code).says(parts);
    }
    let args = ["train", "ratings.csv", "--config", "nowhere.toml"];
    sandbox.dp(&args).exits(4).says(&["nowhere.toml"]);
    let env = [("DP_NO_SPLIT", "maybe")];
    let args = ["train", "ratings.csv", "--epsilon", "1", "--delta", "1e-5"];
    sandbox
        .run_with(&args, &env)
        .exits(2)
        .says(&["DP_NO_SPLIT is `maybe`"]);
    assert_eq!(sandbox.names(), ["c.toml", "ratings.csv"]);
}

#[test]
fn completions_name_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let run = Sandbox::new().dp(&["completions", shell]).exits(0);
        for word in ["personalize", "epsilon"] {
            assert!(run.stdout.contains(word), "{shell}: no {word}");
        }
    }
}
