//! Pages about a run: what was released, and apart from it what is not covered by the guarantee. A run writes both as it ends;
//! `dp report` writes them again, with other runs beside it.

mod convergence;
mod internal;
mod items;
mod nearest;
mod privacy;
mod released;
mod run;
mod runs;

use dp_accounting::Certificate;

pub(crate) use internal::internal_page;
pub(crate) use items::item_table;
pub(crate) use nearest::Wanted;
pub(crate) use released::released_page;
pub(crate) use run::{Model, ReportedRun};

use crate::error::Result;
use crate::output::{
    CERTIFICATE, INTERNAL, InternalRun, OutputFolder, ReleasedRun, pretty, read_certificate,
};

/// Released values, certificate and released page of a run that ends, before anything is measured on held-out records.
pub(crate) fn write_released(
    folder: &OutputFolder,
    certificate: Certificate,
    released: ReleasedRun,
    model: Option<Model<'_>>,
) -> Result<()> {
    let certificate = released.write(folder, certificate)?;
    folder.write(CERTIFICATE, certificate.to_json().as_bytes())?;
    let run = ReportedRun::ending(folder, certificate, released, model)?;
    let page = released_page(&[run], &Wanted::default())?;
    folder.write("report.md", page.markdown().as_bytes())?;
    for (name, svg) in page.figures() {
        folder.write(name, svg.as_bytes())?;
    }
    Ok(())
}

/// What a run measured on private data and its internal page, for the eyes of the folder's owner.
pub(crate) fn write_internal(
    folder: &OutputFolder,
    mut internal: InternalRun,
    released: ReleasedRun,
    model: Option<Model<'_>>,
) -> Result<()> {
    let certificate = read_certificate(&folder.path(CERTIFICATE))?;
    internal.certificate = Some(certificate.digest.clone());
    folder.write_internal(INTERNAL, &pretty(&internal)?)?;
    let mut run = ReportedRun::ending(folder, certificate, released, model)?;
    run.internal = Some(internal);
    if let Some(page) = internal_page(&[run]) {
        folder.write_internal("internal.md", page.markdown().as_bytes())?;
        for (name, svg) in page.figures() {
            folder.write_internal(name, svg.as_bytes())?;
        }
    }
    Ok(())
}
