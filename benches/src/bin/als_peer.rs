//! Our side of `benches/peers/als.py`: writes a generated matrix and times rounds of alternating
//! least squares without privacy on it, for implicit feedback.
//!
//! `als_peer FOLDER MILLIONS` writes `indptr` (u64), `indices` (u32) and `values` (f32) of the
//! user-by-item matrix, little endian, to FOLDER and prints one JSON object.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use dp_benches::processor_seconds;
use dp_core::Interactions;
use dp_data::LongTailRatings;
use dp_multitask::NonPrivateAls;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

const DIM: usize = 64;
/// The time of a round comes from the difference between a fit with one round and a fit with this
/// many more.
const MORE_ROUNDS: usize = 3;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let folder = args.next().ok_or("the folder to write to is missing")?;
    let millions: usize = args.next().map_or(Ok(10), |text| text.parse())?;
    let shape = LongTailRatings::new(6_988 * millions, 10_677, millions * 1_000_000);
    let ratings = shape.generate(&mut ChaCha20Rng::seed_from_u64(1))?;
    let data = ratings.interactions();
    write(Path::new(&folder), data.expose())?;
    let _made_once = data.expose().item_major();
    let fit = |n_rounds| {
        let als = NonPrivateAls {
            dim: DIM,
            n_rounds,
            ..NonPrivateAls::implicit()
        };
        let start = processor_seconds();
        als.fit(data).map(|_| processor_seconds() - start)
    };
    let one = fit(1)?;
    let seconds = (fit(1 + MORE_ROUNDS)? - one) / MORE_ROUNDS as f64;
    let threads = rayon::current_num_threads();
    println!("{{\"seconds\": {seconds}, \"threads\": {threads}, \"dim\": {DIM}}}");
    Ok(())
}

fn write(folder: &Path, table: &Interactions) -> std::io::Result<()> {
    let file = |name: &str| File::create(folder.join(name)).map(BufWriter::new);
    let (mut indptr, mut indices, mut values) =
        (file("indptr")?, file("indices")?, file("values")?);
    indptr.write_all(&0_u64.to_le_bytes())?;
    for user in 0..table.n_users() {
        indptr.write_all(&(table.user_range(user).end as u64).to_le_bytes())?;
        for (item, value) in table.user(user).iter() {
            indices.write_all(&item.to_le_bytes())?;
            values.write_all(&value.to_le_bytes())?;
        }
    }
    [indptr, indices, values]
        .iter_mut()
        .try_for_each(Write::flush)
}
