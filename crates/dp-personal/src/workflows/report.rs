//! `dp report`: pages about runs that are done. Reads folders alone; nothing is spent.

use std::path::Path;

use serde_json::json;

use crate::error::{Error, Result};
use crate::output::{self, CERTIFICATE, Replacement, read_certificate, replace_files};
use crate::report::{ReportedRun, Wanted, internal_page, item_table, released_page};
use crate::settings::ReportArgs;

/// Every name that the command may write. It owns them: what is not written now is removed, lest pages of different
/// runs stand beside each other.
const PAGES: [&str; 3] = ["report.html", "report.md", "report-items.csv"];
const INTERNAL_PAGES: [&str; 2] = ["internal.html", "internal.md"];

pub fn run(args: &ReportArgs) -> Result<()> {
    let wanted = Wanted::read(&args.titles, args.items.as_deref())?;
    let runs: Result<Vec<ReportedRun<'_>>> = args
        .folders
        .iter()
        .map(|dir| ReportedRun::read(dir))
        .collect();
    let runs = runs?;
    let out = args.out.as_deref().unwrap_or(&args.folders[0]);
    refuse_another_run(out, &runs[0])?;
    let files = pages(args, &runs, &wanted)?;
    if args.out.is_some() {
        output::make_folder(out)?;
    }
    replace_files(out, &files, &stale(out, &files))?;
    let is_private = runs.iter().all(ReportedRun::is_private);
    if !is_private {
        output::warn("not every run is private: its page says so");
    }
    let names = |is_internal: bool| -> Vec<String> {
        let of_kind = files
            .iter()
            .filter(|(_, _, internal)| *internal == is_internal);
        of_kind
            .map(|(name, _, _)| out.join(name).display().to_string())
            .collect()
    };
    let (public, own) = (names(false), names(true));
    if args.json {
        return output::print_json(&json!({
            "private": is_private,
            "runs": runs.iter().map(|run| &run.name).collect::<Vec<_>>(),
            "released": {"files": public},
            "internal": {"files": own},
        }));
    }
    output::print(&summary(out, is_private, &public, &own))
}

/// The pages as files; elsewhere than beside the model those that may be published alone, unless the others are asked
/// for.
fn pages(
    args: &ReportArgs,
    runs: &[ReportedRun<'_>],
    wanted: &Wanted,
) -> Result<Vec<Replacement<'static>>> {
    let released = released_page(runs, wanted)?;
    let mut files: Vec<Replacement<'static>> = vec![
        ("report.html", released.html().into_bytes(), false),
        ("report.md", released.markdown().into_bytes(), false),
    ];
    files.extend(item_table(&runs[0], wanted)?.map(|table| ("report-items.csv", table, false)));
    let with_internal = args.out.is_none() || args.internal;
    if let Some(page) = internal_page(runs).filter(|_| with_internal) {
        files.push(("internal.html", page.html().into_bytes(), true));
        files.push(("internal.md", page.markdown().into_bytes(), true));
    }
    Ok(files)
}

/// Pages about one run do not belong into the folder of another.
fn refuse_another_run(out: &Path, run: &ReportedRun<'_>) -> Result<()> {
    let path = out.join(CERTIFICATE);
    if path.exists() && read_certificate(&path)?.digest != run.certificate.digest {
        let out = out.display();
        return Err(Error::Usage(format!(
            "--out {out} holds another run, with a certificate of its own; choose another folder"
        )));
    }
    Ok(())
}

/// What an earlier report left and this one does not write. The `internal.md` of a run stays where no report has
/// replaced it.
fn stale(out: &Path, files: &[Replacement<'_>]) -> Vec<&'static str> {
    let internal_is_ours = !out.join(CERTIFICATE).exists() || out.join("internal.html").exists();
    let internal = INTERNAL_PAGES.iter().filter(|_| internal_is_ours);
    let owned = PAGES.iter().chain(internal).copied();
    owned
        .filter(|name| files.iter().all(|(written, _, _)| written != name))
        .collect()
}

fn summary(out: &Path, is_private: bool, public: &[String], own: &[String]) -> String {
    let first = if is_private {
        "released"
    } else {
        "NOT PRIVATE"
    };
    let mut text = String::new();
    for (kind, files) in [(first, public), ("internal", own)] {
        for (at, file) in files.iter().enumerate() {
            let head = if at == 0 { kind } else { "" };
            text.push_str(&format!("{head:<12}{file}\n"));
        }
    }
    if !own.is_empty() {
        let out = out.display();
        text.push_str(&format!(
            "before publishing {out}, take out every file whose name begins with `internal`\n"
        ));
    }
    text
}
