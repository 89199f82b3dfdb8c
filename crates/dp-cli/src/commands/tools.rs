//! Commands that spend no budget of the user's own data: generated data, certificates and pages.

use std::path::{Path, PathBuf};
use std::time::Instant;

use dp_personal::accounting::Status;
use dp_personal::output::releases_in_words;
use dp_personal::settings::{
    DemoSettings, EvidenceSettings, PublishSettings, ReportSettings, SynthSettings, VerifySettings,
};
use dp_personal::workflows::demo::{self, DemoData, DemoRow};
use dp_personal::workflows::publish::Published;
use dp_personal::workflows::recompute::Recomputed;
use dp_personal::workflows::report::Reported;
use dp_personal::workflows::verify::Verified;
use dp_personal::workflows::{evidence, publish, report, synth, verify};
use serde_json::{Value, json};

use crate::args::{COMMAND, CompletionsArgs, Flags};
use crate::error::{Error, Result};
use crate::progress::Bar;
use crate::screen::{note, print, print_json, print_summary, warn};

pub(crate) fn evidence(flags: &Flags<EvidenceSettings>) -> Result<()> {
    let made = evidence::evidence(&flags.settings)?;
    note(
        "the table is not private: whoever sees it may learn about the ratings that it was made from, which have to be public",
    );
    let (path, n_items) = (made.path.display().to_string(), made.n_items);
    if flags.json {
        return print_json(&json!({
            "path": path, "n_items": n_items, "n_rated": made.n_rated, "n_used": made.n_used, "n_ratings": made.n_ratings,
        }));
    }
    print(&format!(
        "{path}: {n_items} items, {} of them with public ratings; {} of {} ratings are of these items\n",
        made.n_rated, made.n_used, made.n_ratings
    ))
}

pub(crate) fn synth(flags: &Flags<SynthSettings>) -> Result<()> {
    let files = synth::synth(&flags.settings)?;
    if flags.json {
        let data_seed = flags.settings.generated.data_seed;
        let files = files
            .iter()
            .map(|file| json!({"path": file.path.display().to_string(), "n_lines": file.n_lines}));
        let files: Vec<Value> = files.collect();
        return print_json(&json!({"files": files, "data_seed": data_seed}));
    }
    let lines = files.iter().map(|file| {
        let path = file.path.display();
        format!("{path}: {} lines under a header\n", file.n_lines)
    });
    print(&lines.collect::<String>())
}

pub(crate) fn demo(flags: &Flags<DemoSettings>) -> Result<()> {
    let start = Instant::now();
    let (mut bar, mut data, mut printed) = (Bar::default(), None, Ok(()));
    let rows = demo::demo(&flags.settings, &mut bar, &mut |made| {
        data = Some(made);
        if !flags.json {
            printed = print(&format!(
                "generated {} ratings of {} users for {} items\n\n",
                made.n_ratings, made.n_users, made.n_items
            ));
        }
    })?;
    printed?;
    let (seconds, out) = (start.elapsed().as_secs_f64(), &flags.settings.out);
    match data {
        Some(data) if !flags.json => {
            let seconds = format!("\n{seconds:.1} s in all\n");
            print(&(errors(&rows, data) + &what_is_left(out, data) + &seconds))
        }
        _ => {
            let rows = rows
                .iter()
                .map(|row| json!({"method": row.method, "test_rmse": row.test_rmse}));
            let rows: Vec<Value> = rows.collect();
            let out = out.display().to_string();
            print_json(&json!({"rows": rows, "out": out, "seconds": seconds}))
        }
    }
}

fn errors(rows: &[DemoRow], DemoData { delta, .. }: DemoData) -> String {
    let mut text = format!("{:<26} test RMSE\n", "method");
    for row in rows {
        let rmse = row
            .test_rmse
            .map_or_else(|| "-".to_owned(), |v| format!("{v:.4}"));
        text.push_str(&format!("{:<26} {rmse:>9}\n", row.method));
    }
    text + &format!(
        "\nRMSE: root mean squared error of the ratings held out, in stars; less is better\n\
         private: everything a user contributed, against adding or removing the user, delta {delta:e}\n\
         user mean: each user's own average, which needs no server and releases nothing\n"
    )
}

/// The files of the last run, as `dp train` writes them.
fn what_is_left(out: &Path, DemoData { epsilon, delta, .. }: DemoData) -> String {
    let out = out.display();
    // as this program was started
    let dp = match std::env::var_os("CARGO") {
        Some(_) => "cargo run --release -p dp-cli --",
        None => "dp",
    };
    format!(
        "\n{out}/ holds the run at epsilon {epsilon}:\n\
         \u{20} item_factors.safetensors, items.csv  the model\n\
         \u{20} certificate.json                     every release, its noise, and the guarantee that follows\n\
         \u{20} report.md                            the same in words\n\
         \u{20} model-card.md                        what the model is for, and its limits\n\
         {out}-internal/ holds what is measured on held-out ratings: not covered, not to be published\n\
         \nnext steps\n\
         \u{20} see the run as a page:  {dp} report {out}, then open {out}/report.html\n\
         \u{20} check the certificate:  {dp} verify {out}\n\
         \u{20} measure the guarantee:  {dp} audit --epsilon {epsilon} --delta {delta:e}\n\
         \u{20} use your own ratings:   {dp} train --help\n"
    )
}

/// A valid certificate without a guarantee is shown as JSON, and is an error.
pub(crate) fn verify(flags: &Flags<VerifySettings>) -> Result<()> {
    let found = verify::verify(&flags.settings)?;
    let ledger = flags.settings.ledger.as_deref();
    if flags.json {
        print_json(&verified(&found, ledger)?)?;
    }
    let recomputed = match found.recomputed {
        Some(Recomputed::Differs { what }) => return Err(Error::Differs(what)),
        Some(Recomputed::Cannot { because }) => return Err(Error::NotRecomputed(because)),
        Some(Recomputed::Same { .. }) => {
            "the model follows, bit for bit, from its list of releases\n".to_owned()
        }
        None => String::new(),
    };
    if let Status::NotPrivate { reason } = found.statement.status {
        let path = found.path;
        return Err(Error::NotPrivate { path, reason });
    }
    if flags.json {
        return Ok(());
    }
    let files = if found.files_compared {
        "the model is the one that the certificate was issued for\n\
         pages such as the model card were compared with manifest.json only: publish those that dp publish writes"
    } else {
        "model not compared: give the folder to compare it too"
    };
    let ledger = ledger.map_or_else(String::new, |ledger| {
        let replaced = found.replaced_by.as_ref();
        let replaced = replaced.map_or_else(String::new, |by| {
            format!(", which was replaced by {by}: later payments are there")
        });
        format!(
            "every release was paid for in {}{replaced}\n",
            ledger.display()
        )
    });
    print_summary(&format!(
        "{} holds: recomputed from its {}\n{files}\n{recomputed}{ledger}\n{}",
        found.path.display(),
        releases_in_words(found.certificate.releases.len() as u64),
        found.overview
    ))
}

fn verified(found: &Verified, ledger: Option<&Path>) -> Result<Value> {
    let (certificate, statement) = (&found.certificate, &found.statement);
    Ok(json!({
        "certificate": found.path.display().to_string(),
        "verified": true,
        "files_compared": found.files_compared,
        "recomputed": found.recomputed.as_ref().map(as_json),
        "private": statement.status == Status::Private,
        "guarantee": statement.guarantee,
        "adjacency": certificate.adjacency,
        "data_set": certificate.data_set_id,
        "n_releases": certificate.releases.len(),
        "digest": certificate.digest,
        "ledger_compared": ledger.is_some(),
        "ledger_replaced_by": found.replaced_by,
        "statement": serde_json::to_value(statement)?,
    }))
}

fn as_json(found: &Recomputed) -> Value {
    match found {
        Recomputed::Same { .. } => json!({"result": "same"}),
        Recomputed::Differs { what } => json!({"result": "differs", "what": what}),
        Recomputed::Cannot { because } => json!({"result": "cannot", "because": because}),
    }
}

pub(crate) fn publish(flags: &Flags<PublishSettings>) -> Result<()> {
    show_published(flags.json, &publish::publish(&flags.settings)?)
}

pub(super) fn show_published(as_json: bool, found: &Published) -> Result<()> {
    let files = names(&found.files);
    if as_json {
        let left_out = found.left_out.iter().filter_map(|path| path.file_name());
        let left_out: Vec<_> = left_out.map(|name| name.to_string_lossy()).collect();
        return print_json(&json!({"files": files, "left_out": left_out}));
    }
    for path in &found.left_out {
        warn(&format!(
            "{}: left out because no certificate covers it",
            path.display()
        ));
    }
    let lines = files.into_iter().map(|file| file + "\n");
    print(&lines.collect::<String>())
}

pub(crate) fn report(flags: &Flags<ReportSettings>) -> Result<()> {
    let found = report::report(&flags.settings)?;
    if !found.is_private {
        warn("not every run is private: the page says which are not");
    }
    if flags.json {
        return print_json(&json!({
            "private": found.is_private,
            "runs": found.runs,
            "released": {"files": names(&found.released)},
            "internal": {"files": names(&found.internal)},
        }));
    }
    print(&pages(&found))
}

fn names(paths: &[PathBuf]) -> Vec<String> {
    paths
        .iter()
        .map(|path| path.display().to_string())
        .collect()
}

fn pages(found: &Reported) -> String {
    let first = if found.is_private {
        "released"
    } else {
        "NOT PRIVATE"
    };
    let mut text = String::new();
    for (kind, files) in [(first, &found.released), ("internal", &found.internal)] {
        for (at, file) in names(files).iter().enumerate() {
            let head = if at == 0 { kind } else { "" };
            text.push_str(&format!("{head:<12}{file}\n"));
        }
    }
    text
}

/// Prints the flags of every command for shell completion.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut COMMAND.clone(), "dp", &mut script);
    print(&String::from_utf8_lossy(&script))
}
