//! Writes ratings of any size as csv to standard output without holding them in memory: user by
//! user, with a long tail of items and stars of low rank. For experiments with `dp train --memory`;
//! output to a pipe works as well as to a file:
//!
//! `cargo run --release -p dp-benches --bin generated_ratings -- USERS ITEMS RATINGS > ratings.csv`

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "sizes and stars are small and positive"
)]

use std::io::{self, BufWriter, Write};

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const RANK: usize = 4;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sizes: Vec<u64> = std::env::args()
        .skip(1)
        .map(|size| size.parse())
        .collect::<Result<_, _>>()?;
    let [n_users, n_items, n_ratings] = sizes[..] else {
        return Err("expected numbers of users, items and ratings".into());
    };
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let items: Vec<[f32; RANK + 1]> = (0..n_items).map(|_| traits(&mut rng)).collect();
    let mut out = BufWriter::with_capacity(1 << 20, io::stdout().lock());
    writeln!(out, "user,item,rating")?;
    let mut line = Vec::new();
    let (mut written, mut expected) = (0, 0.0);
    for user in 0..n_users {
        let own = traits(&mut rng);
        // a share of 3 x² for x uniform: 1 on average, most users below
        expected += 3.0 * rng.random::<f64>().powi(2) * n_ratings as f64 / n_users as f64;
        let end = if user + 1 == n_users {
            n_ratings
        } else {
            (expected as u64).min(n_ratings)
        };
        for _ in written..end {
            let x = rng.random::<f64>();
            let item = (x * x * x * n_items as f64) as usize;
            let of = &items[item];
            let tastes: f32 = (1..=RANK).map(|k| own[k] * of[k]).sum();
            let y = 3.6 + 0.4 * own[0] + 0.5 * of[0] + 0.3 * tastes + 0.8 * normal(&mut rng);
            line.clear();
            dp_data::write_whole(user as i64, &mut line);
            line.push(b',');
            dp_data::write_whole(item as i64, &mut line);
            line.extend_from_slice(&[b',', b'0' + y.round().clamp(1.0, 5.0) as u8, b'\n']);
            out.write_all(&line)?;
        }
        written = end;
    }
    Ok(out.flush()?)
}

fn traits(rng: &mut impl Rng) -> [f32; RANK + 1] {
    std::array::from_fn(|_| normal(rng))
}

/// Approximately standard normal: the sum of four uniform numbers.
fn normal(rng: &mut impl Rng) -> f32 {
    let bits = rng.next_u64();
    let sum: u64 = (0..4).map(|at| bits >> (16 * at) & 0xffff).sum();
    (sum as f32 / 65_536.0 - 2.0) * 1.732
}
