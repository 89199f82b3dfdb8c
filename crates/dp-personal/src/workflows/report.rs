//! `dp report`: pages about runs that are done. Reads folders alone; nothing is spent. A page that compares runs by private figures, and one that
//! was asked for, leave a note in the ledgers of the runs.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::output::INTERNAL_PAGE;
use crate::output::{
    self, CERTIFICATE, MANIFEST, Manifest, Replacement, internal_folder_of, make_internal_folder,
    read_certificate, replace_files,
};
use crate::report::{ReportedRun, Wanted, internal_page, item_table, released_page};
use crate::settings::ReportSettings;
use crate::workflows::ledger::note_exploration_of;

/// Every name that the command may write. It owns them: what is not written now is removed, lest pages of different
/// runs stand beside each other.
const PAGES: [&str; 3] = ["report.html", "report.md", "report-items.csv"];
const INTERNAL_PAGES: [&str; 2] = ["internal.html", INTERNAL_PAGE];

/// The pages that were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reported {
    /// Whether every run is private.
    pub is_private: bool,
    /// The names of the runs.
    pub runs: Vec<String>,
    /// Pages that may be published.
    pub released: Vec<PathBuf>,
    /// Pages that the guarantee does not cover.
    pub internal: Vec<PathBuf>,
}

/// Writes pages about runs that are done. It reads folders alone; nothing is spent. Where an internal page was asked for or shows several runs, their
/// ledgers note it.
///
/// # Errors
/// When a folder holds no run, a certificate does not hold, or the pages cannot be written.
pub fn report(args: &ReportSettings) -> Result<Reported> {
    let wanted = Wanted::read(&args.titles, args.items.as_deref())?;
    let runs: Result<Vec<ReportedRun<'_>>> = args
        .folders
        .iter()
        .map(|dir| ReportedRun::read(dir))
        .collect();
    let runs = runs?;
    let (Some(first), Some(folder)) = (runs.first(), args.folders.first()) else {
        return Err(Error::Usage("`folders` names no run".to_owned()));
    };
    let out = args.out.as_deref().unwrap_or(folder);
    refuse_another_run(out, first)?;
    let files = pages(args, &runs, &wanted)?;
    if args.out.is_some() {
        output::make_folder(out)?;
    }
    let beside = internal_folder_of(out);
    let is_internal = |(_, _, internal): &Replacement<'_>| *internal;
    if files.iter().any(is_internal) && (runs.len() > 1 || args.internal) {
        let internal = runs.iter().map(|run| run.internal.as_ref());
        note_exploration_of(internal.filter(Option::is_some), "runs shown by dp report");
    }
    let (internal, mut released): (Vec<_>, Vec<_>) = files.into_iter().partition(is_internal);
    if !internal.is_empty() {
        make_internal_folder(&beside)?;
    }
    if beside.is_dir() {
        replace_files(&beside, &internal, &stale_internal(out, &internal))?;
    }
    let gone = stale(&PAGES, &released);
    let names = |folder: &Path, files: &[Replacement<'_>]| {
        let names = files.iter().map(|(name, _, _)| folder.join(name));
        names.collect::<Vec<_>>()
    };
    let names = [names(out, &released), names(&beside, &internal)];
    released.extend(listed(out, &released, &gone)?);
    replace_files(out, &released, &gone)?;
    let is_private = runs.iter().all(ReportedRun::is_private);
    let [released, internal] = names;
    Ok(Reported {
        is_private,
        runs: runs.iter().map(|run| run.name.clone()).collect(),
        released,
        internal,
    })
}

/// The pages as files; elsewhere than beside the model those that may be published alone, unless the others are asked
/// for.
fn pages(
    args: &ReportSettings,
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
        files.push((INTERNAL_PAGE, page.markdown().into_bytes(), true));
    }
    Ok(files)
}

/// Pages about one run do not belong into the folder of another.
fn refuse_another_run(out: &Path, run: &ReportedRun<'_>) -> Result<()> {
    let path = out.join(CERTIFICATE);
    if path.exists() && read_certificate(&path)?.digest != run.certificate.digest {
        let out = out.display();
        return Err(Error::Usage(format!(
            "`out` {out} contains another run with its own certificate; choose another folder"
        )));
    }
    Ok(())
}

/// What an earlier report left and this one does not write.
fn stale(owned: &[&'static str], files: &[Replacement<'_>]) -> Vec<&'static str> {
    let owned = owned.iter().copied();
    owned
        .filter(|name| files.iter().all(|(written, _, _)| written != name))
        .collect()
}

/// The same of internal pages. The `internal.md` of a run stays where no report has replaced it.
fn stale_internal(out: &Path, files: &[Replacement<'_>]) -> Vec<&'static str> {
    let is_ours =
        !out.join(CERTIFICATE).exists() || internal_folder_of(out).join("internal.html").exists();
    let owned = if is_ours { &INTERNAL_PAGES[..] } else { &[] };
    stale(owned, files)
}

/// The list of released files with these pages, where the folder has one.
fn listed(
    out: &Path,
    pages: &[Replacement<'_>],
    gone: &[&str],
) -> Result<Option<Replacement<'static>>> {
    let Some(mut list) = Manifest::read(out)? else {
        return Ok(None);
    };
    gone.iter().for_each(|name| list.remove(name));
    for (name, bytes, _) in pages {
        list.add(name, bytes);
    }
    Ok(Some((MANIFEST, list.to_bytes()?, false)))
}
