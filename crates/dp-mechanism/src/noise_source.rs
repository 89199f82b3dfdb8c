use std::fmt;

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use dp_core::parallel;
use zeroize::Zeroizing;

use crate::random_bits::RandomBits;
use crate::sampler::{DiscreteGaussian, FlooredGaussian};
use crate::{Error, Result, RoundKey};

/// Number of coordinates that share one cipher stream. Seeded results depend on it.
const CHUNK: usize = 4096;
/// Pads the seed of repeatable noise to a key.
const INSECURE_TAG: &[u8; 24] = b"insecure repeated noise!";

type Key = Zeroizing<[u8; 32]>;

/// The source of the noise of releases.
///
/// Each release draws from its own ChaCha20 key. The key is freshly obtained from the operating
/// system, exists for one release, is overwritten afterwards (copies in registers or moved stack
/// slots are beyond the language's control) and is never shown or stored. A source has no generator
/// state, so there is nothing to checkpoint and nothing to replay.
///
/// # Privacy
/// The guarantee assumes a cipher whose output cannot be distinguished from random bits. What root
/// on the host, or a snapshot of a running machine, can see is out of scope.
///
/// # Examples
/// ```
/// use dp_mechanism::NoiseSource;
/// assert!(!NoiseSource::operating_system().is_insecure());
/// assert!(NoiseSource::insecure_seeded(7).is_insecure());
/// ```
pub struct NoiseSource {
    origin: Origin,
}

enum Origin {
    OperatingSystem,
    Seeded { seed: u64, n_releases: u64 },
}

impl NoiseSource {
    /// Keys from the operating system: the only source with a guarantee.
    #[must_use]
    pub const fn operating_system() -> Self {
        Self {
            origin: Origin::OperatingSystem,
        }
    }

    /// Repeatable noise for tests and reproductions.
    ///
    /// The key of release `r` is the first 32 bytes of ChaCha20 stream `r` under the seed, so two
    /// releases of one source differ, and a second source with the same seed repeats both.
    ///
    /// # Privacy
    /// None: anyone who knows or guesses the seed can subtract the noise. Every result is marked
    /// accordingly. Never charge seeded releases to a ledger that other runs rely on, because its
    /// total would be invalid.
    #[must_use]
    pub const fn insecure_seeded(seed: u64) -> Self {
        Self {
            origin: Origin::Seeded {
                seed,
                n_releases: 0,
            },
        }
    }

    /// Whether the noise is repeatable, which voids the guarantee.
    #[must_use]
    pub const fn is_insecure(&self) -> bool {
        matches!(self.origin, Origin::Seeded { .. })
    }

    /// Skips the keys of releases that are replayed, so that seeded noise continues where it would
    /// be.
    pub(crate) const fn skip(&mut self, n_keys: u64) {
        if let Origin::Seeded { n_releases, .. } = &mut self.origin {
            *n_releases = n_releases.wrapping_add(n_keys);
        }
    }

    /// The noise of one release.
    ///
    /// # Errors
    /// [`Error::EntropyUnavailable`] if the operating system provides no entropy.
    pub(crate) fn release_stream(&mut self) -> Result<NoiseStream> {
        let mut key = Key::default();
        match &mut self.origin {
            Origin::OperatingSystem => {
                getrandom::fill(key.as_mut_slice()).map_err(|_| Error::EntropyUnavailable)?;
            }
            Origin::Seeded { seed, n_releases } => {
                seeded_key(*seed, *n_releases, &mut key);
                #[cfg(privacy_mutants)]
                seeded_key(
                    *seed,
                    dp_core::mutants::pick("seeded-key-reused", *n_releases, 0),
                    &mut key,
                );
                *n_releases = n_releases.wrapping_add(1);
            }
        }
        #[cfg(privacy_mutants)]
        crate::mutants::key(&mut key);
        Ok(NoiseStream { key })
    }
}

impl fmt::Debug for NoiseSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.origin {
            Origin::OperatingSystem => "NoiseSource(operating system)",
            Origin::Seeded { .. } => "NoiseSource(insecure, seeded)",
        })
    }
}

/// The key of one release of a seeded source.
fn seeded_key(seed: u64, release: u64, key: &mut Key) {
    let mut master = Key::default();
    let (head, tail) = master.split_at_mut(size_of::<u64>());
    head.copy_from_slice(&seed.to_le_bytes());
    tail.copy_from_slice(INSECURE_TAG);
    let mut rng = ChaCha20Rng::from_seed(*master);
    rng.set_stream(release);
    rng.fill_bytes(key.as_mut_slice());
}

/// The noise of one release: a key that is consumed by adding noise once.
///
/// Coordinates are divided into chunks of 4096, and chunk `t` draws from cipher stream `t`, block
/// counter from 0. The noise of a coordinate therefore depends on the key, its index and the noise
/// scales of its chunk, and not on the number of threads.
pub(crate) struct NoiseStream {
    key: Key,
}

impl NoiseStream {
    /// Adds floor(sigma N(0, 1)) to every coordinate, wrapping.
    ///
    /// # Panics
    /// If `sigma` is outside 2^5 to 2^40, which no grid produces.
    pub(crate) fn add_floored_gaussian(self, sigma: u64, sums: &mut [i64]) {
        #[cfg(privacy_mutants)]
        let (sigma, sums) = crate::mutants::noise(sigma, sums);
        let noise = scale_of_a_grid(sigma);
        self.for_each_chunk(sums, |_, rng, chunk| noise.add_noise(rng, chunk));
    }

    /// Adds a draw of the discrete Gaussian of scale `sigma` to every coordinate, wrapping.
    ///
    /// # Panics
    /// If `sigma` is outside 2^5 to 2^40, which no grid produces.
    #[allow(
        clippy::expect_used,
        reason = "less noise than a grid asks for must never go out"
    )]
    pub(crate) fn add_discrete_gaussian(self, sigma: u64, sums: &mut [i64]) {
        #[cfg(privacy_mutants)]
        let (sigma, sums) = crate::mutants::noise(sigma, sums);
        let noise = DiscreteGaussian::new(sigma);
        let noise = noise.expect("a grid's noise scale lies between 2^5 and 2^40");
        self.for_each_chunk(sums, |_, rng, chunk| noise.add_noise(rng, chunk));
    }

    /// Adds noise to a sequence of packed upper triangles, row by row: floor(`diagonal` N(0, 1))
    /// on the diagonal, floor(`off_diagonal` N(0, 1)) off it, wrapping.
    ///
    /// # Panics
    /// If a scale is outside 2^5 to 2^40, which no grid produces, or if `sums` is not a whole
    /// number of triangles of `dim (dim + 1) / 2` entries.
    pub(crate) fn add_floored_gaussian_packed(
        self,
        diagonal: u64,
        off_diagonal: u64,
        dim: usize,
        sums: &mut [i64],
    ) {
        #[cfg(privacy_mutants)]
        let (diagonal, off_diagonal, sums) =
            crate::mutants::packed_noise(diagonal, off_diagonal, sums);
        let pattern = packed_scales(
            scale_of_a_grid(diagonal),
            scale_of_a_grid(off_diagonal),
            dim,
        );
        let whole = sums.len().checked_rem(pattern.len()).unwrap_or(sums.len()) == 0;
        assert!(whole, "sums must be whole packed triangles");
        self.for_each_chunk(sums, |first, rng, chunk| {
            let (past, ahead) = pattern.split_at(first.checked_rem(pattern.len()).unwrap_or(0));
            let scales = ahead.iter().chain(past).cycle();
            FlooredGaussian::add_noise_each(scales, rng, chunk);
        });
    }

    /// The key's random bits in order, for sequential draws.
    pub(crate) fn into_bits(self) -> RandomBits {
        RandomBits::new(self.substream(0))
    }

    /// The key itself, for the secret coins of a sample.
    pub(crate) fn into_round_key(self) -> RoundKey {
        RoundKey::new(self.key)
    }

    /// Runs `add` on each chunk with the index of its first coordinate and its own generator.
    fn for_each_chunk(
        &self,
        sums: &mut [i64],
        add: impl Fn(usize, &mut ChaCha20Rng, &mut [i64]) + Sync,
    ) {
        parallel::for_each(sums.chunks_mut(CHUNK).enumerate(), |(t, chunk)| {
            let first = t.saturating_mul(CHUNK);
            add(first, &mut self.substream(t as u64), chunk);
        });
    }

    /// The generator of chunk `t`. It overwrites its copy of the key when dropped.
    fn substream(&self, t: u64) -> ChaCha20Rng {
        #[cfg(privacy_mutants)]
        let t = dp_core::mutants::pick("chunks-share-a-stream", t, 0);
        let mut rng = ChaCha20Rng::from_seed(*self.key);
        rng.set_stream(t);
        rng
    }
}

/// The sampler for a scale given by a grid.
#[allow(
    clippy::expect_used,
    reason = "less noise than a grid asks for must never go out"
)]
fn scale_of_a_grid(sigma: u64) -> FlooredGaussian {
    let noise = FlooredGaussian::new(sigma);
    noise.expect("a grid's noise scale lies between 2^5 and 2^40")
}

/// The scale of each entry of a packed upper triangle; each row begins with its diagonal entry.
fn packed_scales(
    diagonal: FlooredGaussian,
    off_diagonal: FlooredGaussian,
    dim: usize,
) -> Vec<FlooredGaussian> {
    let row = |after| std::iter::once(diagonal).chain(std::iter::repeat_n(off_diagonal, after));
    (0..dim).rev().flat_map(row).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn in_pool<T: Send>(n_threads: usize, run: impl FnOnce() -> T + Send) -> T {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(n_threads)
            .build();
        pool.unwrap().install(run)
    }

    #[test]
    fn no_two_releases_share_a_key() {
        for (mut source, n_releases) in [
            (NoiseSource::operating_system(), 1_000_000),
            (NoiseSource::insecure_seeded(1), 100_000),
        ] {
            let keys: HashSet<[u8; 32]> = (0..n_releases)
                .map(|_| *source.release_stream().unwrap().key)
                .collect();
            assert_eq!(keys.len(), n_releases);
        }
    }

    #[test]
    fn seeded_noise_repeats_and_differs_by_release_and_seed() {
        let noise = |source: &mut NoiseSource| {
            let mut sums = vec![0; 100];
            let stream = source.release_stream().unwrap();
            stream.add_floored_gaussian(1 << 30, &mut sums);
            sums
        };
        let (mut a, mut b) = (
            NoiseSource::insecure_seeded(5),
            NoiseSource::insecure_seeded(5),
        );
        let first = noise(&mut a);
        assert_eq!(first, noise(&mut b));
        let second = noise(&mut a);
        assert_ne!(first, second);
        assert_eq!(second, noise(&mut b));
        assert_ne!(first, noise(&mut NoiseSource::insecure_seeded(6)));
        let mut system = NoiseSource::operating_system();
        assert_ne!(noise(&mut system), noise(&mut system));
    }

    #[test]
    fn noise_does_not_depend_on_the_number_of_threads() {
        let run = |n_threads| {
            in_pool(n_threads, || {
                let mut source = NoiseSource::insecure_seeded(9);
                let mut stream = || source.release_stream().unwrap();
                let mut sums = vec![0; 5 * CHUNK + 17];
                stream().add_floored_gaussian(1 << 40, &mut sums);
                let mut packed = vec![0; 2000 * 10];
                stream().add_floored_gaussian_packed(1 << 40, 777_472_127_994, 4, &mut packed);
                (sums, packed)
            })
        };
        let one = run(1);
        for n_threads in [2, 3, 8] {
            assert!(run(n_threads) == one, "{n_threads} threads");
        }
    }

    #[test]
    fn chunks_draw_from_different_streams_from_their_beginning() {
        let stream = NoiseSource::insecure_seeded(2).release_stream().unwrap();
        let mut expected = vec![0; 3 * CHUNK];
        for (t, chunk) in (0..).zip(expected.chunks_mut(CHUNK)) {
            let mut rng = ChaCha20Rng::from_seed(*stream.key);
            rng.set_stream(t);
            FlooredGaussian::new(64).unwrap().fill(&mut rng, chunk);
        }
        let mut sums = vec![0; 3 * CHUNK];
        stream.add_floored_gaussian(64, &mut sums);
        assert_eq!(sums, expected);
        assert_ne!(sums[..CHUNK], sums[CHUNK..2 * CHUNK]);
    }

    #[test]
    fn packed_triangles_get_each_scale_in_its_place() {
        // diagonal 2^40 against 2^5: below 2^9 means off-diagonal, up to a chance of 2^-30
        let dim = 7;
        let mut sums = vec![0; 28 * 1000];
        let stream = NoiseSource::insecure_seeded(3).release_stream().unwrap();
        stream.add_floored_gaussian_packed(1 << 40, 1 << 5, dim, &mut sums);
        for triangle in sums.chunks(28) {
            let mut entries = triangle.iter();
            for a in 0..dim {
                for b in a..dim {
                    let small = entries.next().unwrap().unsigned_abs() < 1 << 9;
                    assert_eq!(small, a != b, "entry ({a}, {b})");
                }
            }
        }
    }

    #[test]
    fn packed_with_equal_scales_is_the_plain_noise() {
        let run = |packed: bool| {
            let stream = NoiseSource::insecure_seeded(4).release_stream().unwrap();
            let mut sums = vec![0; 6 * 5000];
            if packed {
                stream.add_floored_gaussian_packed(1 << 20, 1 << 20, 3, &mut sums);
            } else {
                stream.add_floored_gaussian(1 << 20, &mut sums);
            }
            sums
        };
        assert_eq!(run(true), run(false));
    }

    #[test]
    #[should_panic(expected = "whole packed triangles")]
    fn a_broken_triangle_is_never_half_noised() {
        let stream = NoiseSource::insecure_seeded(3).release_stream().unwrap();
        stream.add_floored_gaussian_packed(64, 46, 3, &mut [0; 7]);
    }

    #[test]
    fn sums_wrap() {
        let noise = |start: i64| {
            let mut sums = vec![start; 1000];
            let stream = NoiseSource::insecure_seeded(8).release_stream().unwrap();
            stream.add_floored_gaussian(1 << 40, &mut sums);
            sums
        };
        for (from_top, from_zero) in noise(i64::MAX).into_iter().zip(noise(0)) {
            assert_eq!(from_top, i64::MAX.wrapping_add(from_zero));
        }
    }

    #[test]
    fn printing_a_source_shows_no_seed() {
        let text = format!("{:?}", NoiseSource::insecure_seeded(987_654_321));
        assert_eq!(text, "NoiseSource(insecure, seeded)");
    }

    #[test]
    fn cipher_is_chacha20_with_20_rounds() {
        // keystream of the all-zero key and nonce: RFC 8439, appendix A.1, vector 1
        let mut bytes = [0; 16];
        ChaCha20Rng::from_seed([0; 32]).fill_bytes(&mut bytes);
        let expected = 0x76b8_e0ad_a0f1_3d90_405d_6ae5_5386_bd28_u128;
        assert_eq!(u128::from_be_bytes(bytes), expected);
    }
}
