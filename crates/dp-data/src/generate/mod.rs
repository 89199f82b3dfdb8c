//! Generated data: rating tables of a given size, and their files.

mod normals;
mod offsets;
mod public_features;
mod ratings;
mod subspace;
mod tasks;

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::{Error, Ratings, Result};

pub use offsets::{OffsetData, PersonalOffsets};
pub use public_features::{GeneratedLabels, PublicFeatureData, PublicFeatureTask};
pub use ratings::LongTailRatings;
pub use subspace::{SharedSubspace, SubspaceData};
pub use tasks::{SkewedTasks, TaskData};

/// Writes ratings as `user,item,rating` under that header, gzip if the name ends in `.gz`.
///
/// The file is written under a temporary name and renamed at the end, so that a full disk or a
/// crash leaves no incomplete table under its name. An existing file of that name is replaced.
///
/// # Privacy
/// Not private: this writes the records themselves. Meant for generated data.
///
/// # Errors
/// [`Error::Write`] if the operating system reports an error; what was written is removed.
pub fn write_csv(path: impl AsRef<Path>, ratings: &Ratings) -> Result<()> {
    let path = path.as_ref();
    let partial = partial_name(path);
    let compress = path
        .extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("gz"));
    write_records(&partial, ratings, compress)
        .and_then(|()| std::fs::rename(&partial, path))
        .map_err(|source| {
            // the first failure is the one to report
            let _ = std::fs::remove_file(&partial);
            Error::Write {
                path: path.display().to_string(),
                source,
            }
        })
}

/// A name in the same folder that no other process uses.
fn partial_name(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.partial", std::process::id()));
    path.with_file_name(name)
}

fn write_records(path: &Path, ratings: &Ratings, compress: bool) -> io::Result<()> {
    let file = BufWriter::with_capacity(1 << 16, File::create(path)?);
    let file = if compress {
        let mut encoder = GzEncoder::new(file, Compression::fast());
        write_text(&mut encoder, ratings)?;
        encoder.finish()?
    } else {
        let mut plain = file;
        write_text(&mut plain, ratings)?;
        plain
    };
    file.into_inner()?.sync_all()
}

fn write_text(out: &mut dyn Write, ratings: &Ratings) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(["user", "item", "rating"])?;
    let items = ratings.catalogue().ids();
    let table = ratings.interactions().expose();
    let mut number = String::new();
    for (user_id, row) in ratings.user_ids().expose().iter().zip(table.users()) {
        for (item, value) in row.iter() {
            number.clear();
            write!(number, "{value}").map_err(io::Error::other)?;
            csv.write_record([user_id, &items[item as usize], &number])?;
        }
    }
    csv.flush()
}
