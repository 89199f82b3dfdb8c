//! One draw of floor(sigma N): candidate, rejection, exact floor.

use chacha20::rand_core::Rng;

use super::alias::{self, TIE_BITS};
use super::uniform::{HEAD_BITS, Offset, Place, bernoulli};
use super::weights::N_BINS;
use super::words::{Block, Words};

/// For the last bin, j = `N_BINS` - 1, (2j + v)/512 must still be a probability.
const _: () = assert!(2 * N_BINS <= 512);

/// Bits of the first comparison with the offset that are drawn together with the candidate.
const PROBE_BITS: u32 = 10;

/// How the 96 random bits of one candidate are used.
pub(super) struct Candidate {
    pub(super) negative: bool,
    /// Uniform in 0..512: the slot of the first rejection step.
    pub(super) slot: u64,
    /// First 10 bits of the uniform number of the first rejection step.
    pub(super) probe: u64,
    /// First 52 bits of the position within the bin.
    pub(super) offset: u64,
    /// Column of the alias table.
    pub(super) column: u8,
    /// First 16 bits of the comparison in that column.
    pub(super) prefix: u16,
}

impl Candidate {
    /// `low`: sign 1, slot 9, probe 10, offset 44 bits; `high`: prefix 16, offset 8, column 8.
    #[inline(always)]
    #[allow(
        clippy::cast_possible_truncation,
        reason = "cutting the block into fields is the purpose"
    )]
    pub(super) const fn from_block(Block { high, low }: Block) -> Self {
        Self {
            negative: low >> 63 == 1,
            slot: (low >> 54) & 0x1ff,
            probe: (low >> 44) & 0x3ff,
            offset: ((low & 0xfff_ffff_ffff) << 8) | ((high as u64 >> 8) & 0xff),
            column: high as u8,
            prefix: (high >> 16) as u16,
        }
    }
}

/// Draws floor(sigma N(0, 1)) for 2^5 <= sigma <= 2^40.
#[inline(always)]
pub(super) fn draw<R: Rng + ?Sized>(sigma: u64, words: &mut Words<'_, R>) -> i64 {
    loop {
        let candidate = Candidate::from_block(words.block());
        let (bin, tie) = alias::first_pick(candidate.column, candidate.prefix);
        // `&`, not `&&`: a single rare branch, taken about as often as the candidate is rejected
        let may_reject = (candidate.slot <= bin.wrapping_mul(2))
            & (candidate.probe <= candidate.offset >> (HEAD_BITS - PROBE_BITS));
        if !(tie | may_reject) {
            let offset = Offset::new(candidate.offset);
            return signed(candidate.negative, floor(sigma, bin, &offset, words));
        }
        if let Some((bin, offset)) = settle(&candidate, bin, tie, words) {
            return signed(candidate.negative, floor(sigma, bin, &offset, words));
        }
    }
}

/// floor(-x) = -floor(x) - 1 for every x that is not an integer, that is, almost surely.
#[inline(always)]
const fn signed(negative: bool, floor: u64) -> i64 {
    floor.cast_signed() ^ (negative as i64).wrapping_neg()
}

/// Bin and offset of a candidate that the first bits left undecided; `None` if it is rejected.
#[cold]
#[inline(never)]
fn settle<R: Rng + ?Sized>(
    candidate: &Candidate,
    bin: u64,
    tie: bool,
    words: &mut Words<'_, R>,
) -> Option<(u64, Offset)> {
    let bin = if tie { bin_of(candidate, words) } else { bin };
    let mut offset = Offset::new(candidate.offset);
    accepts(candidate.slot, candidate.probe, bin, &mut offset, words).then_some((bin, offset))
}

/// The bin of a candidate whose first bits were tied.
#[cold]
#[inline(never)]
pub(super) fn bin_of<R: Rng + ?Sized>(candidate: &Candidate, words: &mut Words<'_, R>) -> u64 {
    alias::pick_after_tie(candidate.column, words.double_word() >> (128 - TIE_BITS))
}

/// An event of probability exp(-(2 j v + v^2)/512) for bin j and offset v.
///
/// With x = v (2j + v)/512 the series is evaluated step by step: step n continues with probability
/// x/n and otherwise ends the walk, which accepts if n is odd:
///
/// ```text
/// P(ends at n) = x^(n-1)/(n-1)! - x^n/n!,   sum over odd n = 1 - x + x^2/2! - ... = exp(-x)
/// ```
///
/// (the alternating walk of von Neumann and Forsythe). The event of probability x/n is the
/// conjunction of three independent ones: a fresh uniform below v, a fresh slot in the first 2j + v
/// of 512, and one chance in n. This requires (2j + v)/512 <= 1, that is, j <= 255, and the bins
/// end at 210; then also x < 1.
fn accepts<R: Rng + ?Sized>(
    first_slot: u64,
    probe: u64,
    bin: u64,
    offset: &mut Offset,
    words: &mut Words<'_, R>,
) -> bool {
    let goes_on = slot_hit(first_slot, bin, offset, words) && probe_hit(probe, offset, words);
    finish_walk(goes_on, bin, offset, words)
}

/// The same event for any position v; `below` is the result of the first step's comparison with v.
#[cold]
#[inline(never)]
pub(super) fn walk<R: Rng + ?Sized>(
    first_slot: u64,
    below: bool,
    bin: u64,
    place: &mut impl Place,
    words: &mut Words<'_, R>,
) -> bool {
    let goes_on = slot_hit(first_slot, bin, place, words) && below;
    finish_walk(goes_on, bin, place, words)
}

/// The steps of the walk from the second on, if it is reached.
fn finish_walk<R: Rng + ?Sized>(
    mut goes_on: bool,
    bin: u64,
    place: &mut impl Place,
    words: &mut Words<'_, R>,
) -> bool {
    let mut n = 1_u64;
    while goes_on {
        n = n.wrapping_add(1);
        let Block { high, low } = words.block();
        let (slot, head) = (u64::from(high >> 23), low >> (64 - HEAD_BITS));
        goes_on = bernoulli(1, n, words)
            && slot_hit(slot, bin, place, words)
            && place.exceeds(head, words);
    }
    n & 1 == 1
}

/// Whether the slot, uniform in 0..512, lies in the first 2j + v of 512.
fn slot_hit<R: Rng + ?Sized>(
    slot: u64,
    bin: u64,
    place: &mut impl Place,
    words: &mut Words<'_, R>,
) -> bool {
    let whole = bin.wrapping_mul(2);
    if slot != whole {
        return slot < whole;
    }
    let head = words.word() >> (64 - HEAD_BITS);
    place.exceeds(head, words)
}

/// Whether a uniform number that begins with the 10 bits of `probe` is below the offset.
fn probe_hit<R: Rng + ?Sized>(probe: u64, offset: &mut Offset, words: &mut Words<'_, R>) -> bool {
    let lower_bits = HEAD_BITS - PROBE_BITS;
    if probe != offset.head >> lower_bits {
        return probe < offset.head >> lower_bits;
    }
    let head = (probe << lower_bits) | (words.word() >> (64 - lower_bits));
    offset.exceeds(head, words)
}

/// floor((j + v) sigma / 16), exactly.
///
/// With the first 52 bits V of v the product (j 2^64 + 2^12 V) sigma, in units of 2^-68, is a lower
/// bound, and the rest of v adds less than 2^12 sigma <= 2^52. So the floor is known unless the
/// distance to the next integer is less than that; then further bits of v decide. For a power of
/// two all of these are multiples of 2^12 sigma and the first 52 bits suffice.
#[inline(always)]
fn floor<R: Rng + ?Sized>(sigma: u64, bin: u64, offset: &Offset, words: &mut Words<'_, R>) -> u64 {
    let product = u128::from(offset.head << (64 - HEAD_BITS)).wrapping_mul(u128::from(sigma));
    let (carry, low) = halves(product);
    let high = bin.wrapping_mul(sigma).wrapping_add(carry);
    let floor = high >> 4;
    let width = sigma << (64 - HEAD_BITS);
    if (high & 15 == 15) & (low > width.wrapping_neg()) {
        // the distance to the next integer is 2^64 - low, 0 < 2^64 - low < width
        let stays = offset.rest_below(low.wrapping_neg(), width, words);
        return floor.wrapping_add(u64::from(!stays));
    }
    floor
}

/// The high and low 64 bits.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "cutting is the purpose")]
const fn halves(x: u128) -> (u64, u64) {
    ((x >> 64) as u64, x as u64)
}

#[cfg(test)]
mod tests {
    use chacha20::ChaCha20Rng;
    use chacha20::rand_core::SeedableRng;

    use super::super::script::Script;
    use super::*;

    /// A block that produces the candidate: sign, slot, probe, 52-bit offset, column, prefix.
    fn block(sign: u64, slot: u64, probe: u64, offset: u64, column: u8, prefix: u16) -> (u32, u64) {
        let high = (u32::from(prefix) << 16)
            | u32::try_from((offset & 0xff) << 8).unwrap()
            | u32::from(column);
        (
            high,
            (sign << 63) | (slot << 54) | (probe << 44) | (offset >> 8),
        )
    }

    /// A column and a prefix that select `bin` without a tie.
    fn choice_of(bin: u64) -> (u8, u16) {
        (0..=255_u8)
            .flat_map(|column| [(column, 0), (column, u16::MAX)])
            .find(|&(column, prefix)| alias::first_pick(column, prefix) == (bin, false))
            .expect("a bin of weight")
    }

    fn draw_script(sigma: u64, blocks: &[(u32, u64)]) -> i64 {
        let mut script = Script::new(blocks);
        let y = draw(sigma, &mut script.words());
        assert_eq!(script.n_left(), 0, "unused blocks");
        y
    }

    const OFFSET: u64 = 0xd_0000_0000_0123; // slightly more than 0.8125
    const PROBE: u64 = OFFSET >> 42;
    const LOW_42: u64 = OFFSET & ((1 << 42) - 1);

    #[test]
    fn value_is_the_floor_of_the_signed_real_number() {
        let value = |sigma, sign, bin, offset| {
            let (column, prefix) = choice_of(bin);
            draw_script(sigma, &[block(sign, 511, 0, offset, column, prefix)])
        };
        // (17 + 0.8125...) 64/16 = 71.25...; its negative has the floor -72
        assert_eq!(value(64, 0, 17, OFFSET), 71);
        assert_eq!(value(64, 1, 17, OFFSET), -72);
        // bin 0, offset below 1/4: the first integer on either side
        assert_eq!(value(64, 0, 0, 5), 0);
        assert_eq!(value(64, 1, 0, 5), -1);
        // the largest power of two uses 36 bits of the offset
        assert_eq!(value(1 << 40, 0, 0, OFFSET).cast_unsigned(), OFFSET >> 16);
    }

    #[test]
    fn a_tied_column_is_settled_by_104_more_bits() {
        let mut n_columns = 0;
        for column in 0..=255_u8 {
            // the prefix that ties, found through the public function
            let tied = (0..=u16::MAX)
                .find(|&p| alias::first_pick(column, p).1)
                .unwrap();
            let below = alias::pick_after_tie(column, 0);
            let above = alias::pick_after_tie(column, (1 << TIE_BITS) - 1);
            if below == above || below > 200 || above > 200 {
                continue; // a column with a single bin, or one where the slot cannot be out of reach
            }
            n_columns += 1;
            let candidate = block(0, 511, 0, 0, column, tied);
            let value = |bits: u64| draw_script(16 << 10, &[candidate, (0, bits), (0, bits)]);
            assert_eq!(value(0).cast_unsigned() >> 10, below);
            assert_eq!(value(u64::MAX).cast_unsigned() >> 10, above);
        }
        assert!(n_columns > 150);
    }

    #[test]
    fn first_rejection_step_is_exact_down_to_the_last_bit() {
        let (column, prefix) = choice_of(60);
        let candidate = |slot, probe| block(0, slot, probe, OFFSET, column, prefix);
        let accepted = (60_u64 << 4) + (OFFSET >> 48);
        let good = block(0, 511, 0, 0, column, prefix); // the candidate after a rejection
        let value = |blocks: &[(u32, u64)]| draw_script(256, blocks).cast_unsigned();
        let word = |w: u64| (0, w);
        // step 2 first continues with probability 1/2: this word stops it, which rejects
        let stop = word(u64::MAX);
        let step = (0, 0);

        let rejected =
            |blocks: &[(u32, u64)]| value(&[blocks, &[step, stop, good]].concat()) == 60 << 4;

        // the slot beyond 2j, or the probe above the offset: accepted at once
        assert_eq!(value(&[candidate(121, 0)]), accepted);
        assert_eq!(value(&[candidate(119, PROBE + 1)]), accepted);
        // both below: the walk reaches step 2 and ends there, a rejection
        assert!(rejected(&[candidate(119, PROBE - 1)]));
        // tied probe: 42 more bits, then 128 more on either side
        let probe_bits = |low: u64| word(low << 22);
        assert_eq!(
            value(&[candidate(119, PROBE), probe_bits(LOW_42 + 1)]),
            accepted
        );
        assert!(rejected(&[candidate(119, PROBE), probe_bits(LOW_42 - 1)]));
        let tied = [
            candidate(119, PROBE),
            probe_bits(LOW_42),
            word(3),
            word(4),
            word(3),
        ];
        assert_eq!(value(&[&tied[..], &[word(4)]].concat()), accepted);
        assert!(rejected(&[&tied[..], &[word(3)]].concat()));
        // slot exactly 2j: one more uniform number is compared with the offset
        let slot_bits = |head: u64| word(head << 12);
        assert_eq!(value(&[candidate(120, 0), slot_bits(OFFSET + 1)]), accepted);
        assert!(rejected(&[candidate(120, 0), slot_bits(OFFSET - 1)]));
    }

    #[test]
    fn a_walk_that_ends_at_an_odd_step_accepts() {
        let (column, prefix) = choice_of(60);
        let candidate = block(0, 0, 0, OFFSET, column, prefix);
        let go = [(0, 0), (0, 0)]; // slot 0 and uniform 0, then a word that passes 1/n
        let stop = [(0, 0), (0, u64::MAX)];
        let accepted = (60 << 4) + (OFFSET >> 48).cast_signed();
        let three = [&[candidate][..], &go, &stop].concat();
        assert_eq!(draw_script(256, &three), accepted);
        let good = block(0, 511, 0, 0, column, prefix);
        let four = [&[candidate][..], &go, &go, &stop, &[good]].concat();
        assert_eq!(draw_script(256, &four), 960);
        // a step also ends by its slot or by its uniform number
        let slot_out = [(u32::MAX, 0), (0, 0)];
        let uniform_out = [(0, u64::MAX), (0, 0)];
        for end in [slot_out, uniform_out] {
            assert_eq!(
                draw_script(256, &[&[candidate][..], &go, &end].concat()),
                accepted
            );
        }
    }

    /// First 52 bits and next two 64-bit digits of v = 16 q / sigma - bin, where a floor changes.
    fn edge(sigma: u64, bin: u64, q: u64) -> (u64, [u64; 2], bool) {
        let rest = u128::from(16 * q - bin * sigma);
        let sigma = u128::from(sigma);
        let (head, rest) = ((rest << 52) / sigma, (rest << 52) % sigma);
        let (first, rest) = ((rest << 64) / sigma, (rest << 64) % sigma);
        let (second, rest) = ((rest << 64) / sigma, (rest << 64) % sigma);
        let digits = [first, second].map(|d| u64::try_from(d).unwrap());
        (u64::try_from(head).unwrap(), digits, rest == 0)
    }

    #[test]
    fn floor_changes_exactly_where_the_real_product_is_an_integer() {
        let mut n_edges = 0;
        for sigma in [33, 46, 1_000_003, 777_472_127_994, (1 << 40) - 1] {
            for bin in [0_u64, 1, 13, 100, 210] {
                let lowest = (bin * sigma).div_ceil(16);
                for q in [lowest + 1, lowest + sigma / 40, (bin * sigma + sigma) / 16] {
                    if 16 * q >= (bin + 1) * sigma || 16 * q <= bin * sigma {
                        continue;
                    }
                    n_edges += 1;
                    let (head, [first, second], finite) = edge(sigma, bin, q);
                    let value = |start: u64, rest: &[u64]| {
                        let blocks: Vec<_> = rest.iter().map(|&w| (0, w)).collect();
                        let mut script = Script::new(&blocks);
                        let y = floor(sigma, bin, &Offset::new(start), &mut script.words());
                        assert_eq!(script.n_left(), 0, "sigma {sigma}, bin {bin}, q {q}");
                        y
                    };
                    assert!(!finite && first > 0 && second > 0 && second < u64::MAX);
                    assert_eq!(value(head - 1, &[]), q - 1);
                    assert_eq!(value(head + 1, &[]), q);
                    assert_eq!(value(head, &[first - 1]), q - 1);
                    assert_eq!(value(head, &[first + 1]), q);
                    assert_eq!(value(head, &[first, second - 1]), q - 1);
                    assert_eq!(value(head, &[first, second + 1]), q);
                }
            }
        }
        assert!(n_edges > 40, "{n_edges}");
    }

    #[test]
    fn powers_of_two_never_need_more_than_the_first_52_bits() {
        let mut none = Script::new(&[]);
        let mut words = none.words();
        for k in 5..=40 {
            for bin in [0, 7, 210] {
                for head in [0, 1, (1 << 52) - 1, OFFSET, 1 << 51, (1 << 51) - 1] {
                    let exact = ((u128::from(bin) << 52) + u128::from(head)) << k >> 56;
                    let found = floor(1 << k, bin, &Offset::new(head), &mut words);
                    assert_eq!(u128::from(found), exact);
                }
            }
        }
    }

    #[test]
    fn acceptance_probability_is_the_exponential() {
        // two-sided five standard errors, 12 assertions: the false-alarm rate is below 1e-5 for a
        // new seed
        const N: u32 = 400_000;
        let mut rng = ChaCha20Rng::from_seed([3; 32]);
        let mut words = Words::new(&mut rng, usize::MAX);
        for bin in [0_u64, 5, 40, 200] {
            for v in [0.05, 0.5, 0.999] {
                #[allow(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "0 < v < 1"
                )]
                let head = (v * 2_f64.powi(52)) as u64;
                let n_accepted = (0..N).filter(|_| {
                    let Block { high, low } = words.block();
                    let (slot, probe) = (u64::from(high >> 23), low >> 54);
                    accepts(slot, probe, bin, &mut Offset::new(head), &mut words)
                });
                let found = n_accepted.count() as f64 / f64::from(N);
                let p = (-v * (2.0 * bin as f64 + v) / 512.0).exp();
                let error = (p * (1.0 - p) / f64::from(N)).sqrt();
                assert!(
                    (found - p).abs() < 5.0 * error,
                    "bin {bin}, v {v}: {found} for {p}"
                );
            }
        }
    }

    #[test]
    fn work_per_draw_is_all_but_independent_of_the_result() {
        // blocks per draw are a proxy for time: log(blocks) against |y|, correlation below 0.02
        const N: u32 = 1_000_000;
        let mut rng = Counted(ChaCha20Rng::from_seed([4; 32]), 0);
        let (mut x, mut y, mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for _ in 0..N {
            rng.1 = 0;
            let size = draw(1 << 20, &mut Words::new(&mut rng, 0)) as f64 / f64::from(1 << 20);
            let (cost, size) = (f64::from(rng.1).ln(), size.abs());
            x += cost;
            y += size;
            xx += cost * cost;
            yy += size * size;
            xy += cost * size;
        }
        let n = f64::from(N);
        let correlation = (n * xy - x * y) / ((n * xx - x * x) * (n * yy - y * y)).sqrt();
        assert!(
            xx > 0.01 * n,
            "the count must vary for the test to mean something"
        );
        assert!(correlation.abs() < 0.02, "{correlation}");
    }

    /// Counts how often a generator is called.
    struct Counted(ChaCha20Rng, u32);

    impl chacha20::rand_core::TryRng for Counted {
        type Error = std::convert::Infallible;

        fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
            Ok(self.0.next_u32())
        }

        fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
            Ok(self.0.next_u64())
        }

        fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
            self.1 += 1;
            self.0.fill_bytes(bytes);
            Ok(())
        }
    }
}
