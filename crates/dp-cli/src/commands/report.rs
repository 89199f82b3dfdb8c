//! `dp report`: pages about runs that are done. Reads folders alone; nothing is spent.

use std::path::Path;

use serde_json::json;

use crate::args::ReportArgs;
use crate::error::Result;
use crate::output::{self, Replacement, replace_files};
use crate::report::{RunFolder, Wanted, html, internal_page, item_table, markdown, released_page};

pub(crate) fn run(args: &ReportArgs) -> Result<()> {
    let wanted = Wanted::read(&args.titles, args.items.as_deref())?;
    let runs: Result<Vec<RunFolder>> = args
        .folders
        .iter()
        .map(|dir| RunFolder::read(dir))
        .collect();
    let runs = runs?;
    let released = released_page(&runs, &wanted)?;
    let internal = internal_page(&runs);
    let mut files: Vec<Replacement<'_>> = vec![
        ("report.html", html(&released).into_bytes(), false),
        ("report.md", markdown(&released).into_bytes(), false),
    ];
    files.extend(item_table(&runs[0])?.map(|table| ("report-items.csv", table, false)));
    if let Some(page) = &internal {
        files.push(("internal.html", html(page).into_bytes(), true));
        files.push(("internal.md", markdown(page).into_bytes(), true));
    }
    let out = args.out.as_deref().unwrap_or(&args.folders[0]);
    if args.out.is_some() {
        output::make_folder(out)?;
    }
    replace_files(out, &files)?;
    if runs.iter().any(|run| !run.is_private()) {
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
            "private": runs[0].is_private(),
            "runs": runs.iter().map(|run| &run.name).collect::<Vec<_>>(),
            "released": {"files": public},
            "internal": {"files": own},
        }));
    }
    output::print(&summary(out, &public, &own))
}

fn summary(out: &Path, public: &[String], own: &[String]) -> String {
    let mut text = String::new();
    for (kind, files) in [("released", public), ("internal", own)] {
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
