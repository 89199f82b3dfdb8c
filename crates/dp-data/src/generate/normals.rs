//! Fast normal random numbers for generated data: eight lanes in single precision. Everything is
//! inlined into one loop, so that the lanes stay in registers.

use std::hint::black_box;

use dp_linalg::{PlainLoops, with_vector_instructions};

/// Number of parallel lanes, so that the compiler can use vector registers.
const LANES: usize = 8;
/// Number of random numbers generated at a time.
const BLOCK: usize = 4 * LANES;
/// `2 pi / 8`: an octant.
const OCTANT: f32 = std::f32::consts::FRAC_PI_4;

/// Step of splitmix64.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

type Words = [u32; LANES];

/// A stream of standard normal numbers in single precision, from a seed.
///
/// Box and Muller (1958) on eight xorshift128 generators (Marsaglia 2003), seeded by splitmix64.
/// Numbers stay within 5.77 standard deviations (24-bit uniforms). For generated data; never for
/// noise that protects privacy.
pub(super) struct NormalLanes {
    state: [Words; 4],
}

impl NormalLanes {
    pub(super) fn new(seed: u64) -> Self {
        with_vector_instructions(FromSeed(seed))
    }

    /// Fills `out` with independent standard normal numbers: a plain loop.
    #[inline(always)]
    pub(super) fn fill(&mut self, out: &mut [f32]) {
        let (blocks, rest) = out.as_chunks_mut::<BLOCK>();
        for block in blocks {
            *block = self.block();
        }
        let last = self.block();
        rest.copy_from_slice(&last[..rest.len()]);
    }

    #[inline(always)]
    fn block(&mut self) -> [f32; BLOCK] {
        let [a, b, c, d] = self.words();
        let [cosines, sines] = pairs(side_by_side(a, c), side_by_side(b, d));
        let mut out = [0.0; BLOCK];
        let (parts, _) = out.as_chunks_mut::<LANES>();
        parts[0].copy_from_slice(&cosines[..LANES]);
        parts[1].copy_from_slice(&sines[..LANES]);
        parts[2].copy_from_slice(&cosines[LANES..]);
        parts[3].copy_from_slice(&sines[LANES..]);
        out
    }

    /// Four words per lane. Four steps at a time need no moves: each overwrites the oldest word.
    #[inline(always)]
    fn words(&mut self) -> [Words; 4] {
        let [x, y, z, w] = &mut self.state;
        step(x, w);
        step(y, x);
        step(z, y);
        step(w, z);
        [*x, *y, *z, *w]
    }
}

/// The initial state for a seed: lane by lane, four words each.
struct FromSeed(u64);

impl PlainLoops for FromSeed {
    type Output = NormalLanes;

    #[inline(always)]
    fn run(self) -> NormalLanes {
        let mut words = [0; 4 * LANES];
        for (number, word) in (1..).zip(&mut words) {
            let nth = self.0.wrapping_add(GOLDEN.wrapping_mul(number));
            *word = halves(mix(nth))[0] | 1; // never all zero
        }
        let mut state = [[0; LANES]; 4];
        for (lane, own) in words.as_chunks::<4>().0.iter().enumerate() {
            for (words, &word) in state.iter_mut().zip(own) {
                words[lane] = word;
            }
        }
        NormalLanes { state }
    }
}

/// `oldest <- newest ^ (newest >> 19) ^ t ^ (t >> 8)`, `t = oldest ^ (oldest << 11)`.
#[inline(always)]
fn step(oldest: &mut Words, newest: &Words) {
    let t = oldest.map(|word| word ^ (word << 11));
    // computed separately, because otherwise the compiler mixes the shifts of both parts lane by
    // lane, which takes a seventh of the total time
    let old_part = black_box(t.map(|t| t ^ (t >> 8)));
    let new_part = newest.map(|word| word ^ (word >> 19));
    for lane in 0..LANES {
        oldest[lane] = old_part[lane] ^ new_part[lane];
    }
}

/// Two steps at once, to fill the widest registers.
#[inline(always)]
fn side_by_side(first: Words, second: Words) -> [u32; 2 * LANES] {
    let mut both = [0; 2 * LANES];
    both[..LANES].copy_from_slice(&first);
    both[LANES..].copy_from_slice(&second);
    both
}

/// Radii from one word of each lane, angles from another.
#[inline(always)]
fn pairs<const N: usize>(radii: [u32; N], angles: [u32; N]) -> [[f32; N]; 2] {
    let (mut cosines, mut sines) = ([0.0; N], [0.0; N]);
    for lane in 0..N {
        let radius = (-2.0 * ln_of_uniform(radii[lane])).sqrt();
        let (c, s) = point_on_circle(angles[lane]);
        cosines[lane] = radius * c;
        sines[lane] = radius * s;
    }
    [cosines, sines]
}

/// `ln u`, where u is the word's upper 24 bits plus a half, divided by 2^24: by exponent and the
/// series of the inverse hyperbolic tangent, accurate to about 1e-7.
#[inline(always)]
fn ln_of_uniform(word: u32) -> f32 {
    #[allow(
        clippy::cast_possible_wrap,
        reason = "24 bits; signed conversion is the quick one"
    )]
    let u = ((word >> 8) as i32 as f32 + 0.5) * (1.0 / (1_u32 << 24) as f32);
    let bits = u.to_bits();
    #[allow(clippy::cast_possible_wrap, reason = "nine bits")]
    let exponent = (bits >> 23) as i32 - 127;
    let mantissa = f32::from_bits((bits & 0x007f_ffff) | 0x3f80_0000);
    let above = mantissa > std::f32::consts::SQRT_2;
    let (m, e) = if above {
        (0.5 * mantissa, exponent as f32 + 1.0)
    } else {
        (mantissa, exponent as f32)
    };
    let s = (m - 1.0) / (m + 1.0);
    let q = s * s;
    let series = 1.0 + q * (1.0 / 3.0 + q * (0.2 + q * (1.0 / 7.0 + q * (1.0 / 9.0))));
    e * std::f32::consts::LN_2 + 2.0 * s * series
}

/// A uniform point on the circle: an angle within an octant, reflected by three bits.
#[inline(always)]
fn point_on_circle(word: u32) -> (f32, f32) {
    #[allow(
        clippy::cast_possible_wrap,
        reason = "24 bits; signed conversion is the quick one"
    )]
    let angle = (word >> 8) as i32 as f32 * (OCTANT / (1_u32 << 24) as f32);
    let q = angle * angle;
    let sine = angle * (1.0 - q * (1.0 / 6.0 - q * (1.0 / 120.0 - q * (1.0 / 5040.0))));
    let cosine = 1.0 - q * (0.5 - q * (1.0 / 24.0 - q * (1.0 / 720.0 - q * (1.0 / 40320.0))));
    let (c, s) = if word & 1 == 0 {
        (cosine, sine)
    } else {
        (sine, cosine)
    };
    let sign = |x: f32, bit: u32| f32::from_bits(x.to_bits() ^ ((word >> bit & 1) << 31));
    (sign(c, 1), sign(s, 2))
}

/// The finaliser of splitmix64 (Steele, Lea, Flood 2014).
pub(super) const fn mix(word: u64) -> u64 {
    let z = word;
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Upper and lower half of a word.
#[allow(
    clippy::cast_possible_truncation,
    reason = "halves, by way of the shift"
)]
pub(super) const fn halves(word: u64) -> [u32; 2] {
    [(word >> 32) as u32, word as u32]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithm_and_circle_are_right_to_single_precision() {
        for word in (0..u32::MAX).step_by(104_729) {
            let u = (f64::from(word >> 8) + 0.5) / f64::from(1_u32 << 24);
            let error = f64::from(ln_of_uniform(word)) - u.ln();
            assert!(error.abs() < 3e-7 * (1.0 + u.ln().abs()), "{u}");
            let (c, s) = point_on_circle(word);
            assert!((c * c + s * s - 1.0).abs() < 1e-6);
        }
    }

    #[test]
    fn moments_and_tails_are_those_of_a_normal_law() {
        let mut lanes = NormalLanes::new(3);
        let mut out = vec![0.0; 1_000_003];
        lanes.fill(&mut out);
        let n = out.len() as f64;
        let moment = |p: i32| out.iter().map(|&x| f64::from(x).powi(p)).sum::<f64>() / n;
        // seven standard deviations of each mean: false-alarm rate 1e-11
        for (p, expected, variance) in
            [(1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)]
        {
            let tolerance = 7.0 * f64::sqrt(variance / n);
            assert!((moment(p) - expected).abs() < tolerance, "moment {p}");
        }
        let beyond = out.iter().filter(|x| x.abs() > 2.0).count() as f64 / n;
        assert!((beyond - 0.045_500_264).abs() < 7.0 * (0.0455 * 0.9545 / n).sqrt());
        // adjacent numbers in the stream, and the two halves of a block, are uncorrelated
        for lag in [1, LANES, 2 * LANES, BLOCK] {
            let pairs = out.iter().zip(&out[lag..]);
            let sum: f64 = pairs.map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
            assert!((sum / n).abs() < 7.0 / n.sqrt(), "lag {lag}");
        }
    }

    #[test]
    fn a_seed_gives_one_stream_and_another_seed_another() {
        let first = |seed| {
            let mut out = [0.0; 5];
            NormalLanes::new(seed).fill(&mut out);
            out.map(f32::to_bits)
        };
        assert_eq!(first(1), first(1));
        assert_ne!(first(1), first(2));
    }
}
