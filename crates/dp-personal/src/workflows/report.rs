//! `dp report`: pages about finished runs. Reads folders only; nothing is spent. A page that
//! compares runs by private metrics, or that was explicitly requested, leaves a note in the ledgers
//! of the runs.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::output::INTERNAL_PAGE;
use crate::output::{
    self, CERTIFICATE, MANIFEST, Manifest, Replacement, internal_folder_of, make_internal_folder,
    read_certificate, replace_files,
};
use crate::report::{
    HTML, ITEM_TABLE, MARKDOWN, ReportedRun, Wanted, internal_page, item_table, pages_of,
    released_page,
};
use crate::settings::ReportSettings;
use crate::workflows::ledger::note_exploration_of;

/// All file names that the command may write. It owns them: files that it does not write this time
/// are removed, so that pages of different runs are not mixed.
const PAGES: [&str; 3] = [HTML, MARKDOWN, ITEM_TABLE];
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

/// Writes pages about finished runs. It reads folders only; nothing is spent. If an internal page
/// was requested or shows several runs, their ledgers record it.
///
/// # Errors
/// When a folder contains no run, a certificate does not verify, or the pages cannot be written.
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

/// The pages as files; outside the model's folder only those that may be published, unless the
/// others are requested.
fn pages(
    args: &ReportSettings,
    runs: &[ReportedRun<'_>],
    wanted: &Wanted,
) -> Result<Vec<Replacement<'static>>> {
    let released = released_page(runs, wanted)?;
    let mut files: Vec<Replacement<'static>> = vec![
        (HTML, released.html().into_bytes(), false),
        (MARKDOWN, released.markdown().into_bytes(), false),
    ];
    files.extend(item_table(&runs[0], wanted)?.map(|table| (ITEM_TABLE, table, false)));
    let with_internal = args.out.is_none() || args.internal;
    if let Some(page) = internal_page(runs).filter(|_| with_internal) {
        files.push(("internal.html", page.html().into_bytes(), true));
        files.push((INTERNAL_PAGE, page.markdown().into_bytes(), true));
    }
    Ok(files)
}

/// The released pages of a finished run that have these names, written anew for that run alone.
pub(super) fn pages_anew(
    run: ReportedRun<'_>,
    has: impl Fn(&str) -> bool,
) -> Result<Vec<(String, Vec<u8>)>> {
    let (mut files, wanted) = (Vec::new(), Wanted::default());
    if has(HTML) {
        let table = item_table(&run, &wanted)?;
        files.extend(table.map(|table| (ITEM_TABLE.to_owned(), table)));
        let page = released_page(std::slice::from_ref(&run), &wanted)?;
        files.push((HTML.to_owned(), page.html().into_bytes()));
    }
    files.extend(pages_of(run.with_figures())?);
    files.retain(|(name, _)| has(name));
    Ok(files)
}

/// Pages about one run do not belong in the folder of another.
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

/// Files that an earlier report left and this one does not write.
fn stale(owned: &[&'static str], files: &[Replacement<'_>]) -> Vec<&'static str> {
    let owned = owned.iter().copied();
    owned
        .filter(|name| files.iter().all(|(written, _, _)| written != name))
        .collect()
}

/// The same for internal pages. The `internal.md` of a run is kept if no report has replaced it.
fn stale_internal(out: &Path, files: &[Replacement<'_>]) -> Vec<&'static str> {
    let is_ours =
        !out.join(CERTIFICATE).exists() || internal_folder_of(out).join("internal.html").exists();
    let owned = if is_ours { &INTERNAL_PAGES[..] } else { &[] };
    stale(owned, files)
}

/// The list of released files with these pages, if the folder has one.
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
