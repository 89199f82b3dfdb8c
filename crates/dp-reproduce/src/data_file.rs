//! Data files in the folder given by `--data`.

use std::path::PathBuf;

use super::ReproduceArgs;
use dp_personal::error::{Error, Result};

/// The first of `files` that exists in `DIR/folder`, or otherwise in `DIR` itself.
pub(super) fn data_file(args: &ReproduceArgs, folder: &str, files: &[&str]) -> Result<PathBuf> {
    let names = files.join(" or ");
    let Some(data) = &args.data else {
        return Err(Error::Usage(format!(
            "--data DIR is needed: a folder with {names}, or with {folder} in it"
        )));
    };
    let places = [data.join(folder), data.clone()];
    let mut paths = places
        .iter()
        .flat_map(|place| files.iter().map(|name| place.join(name)));
    paths.find(|path| path.is_file()).ok_or_else(|| {
        let reason = format!("neither this folder of --data nor its {folder} has {names}");
        Error::model(data, reason)
    })
}
