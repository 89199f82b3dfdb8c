//! Plain loops compiled for the widest vector instructions at hand.

use super::dispatch::{InstructionSet, Kernel, Operation};
use super::lanes::Lanes;

/// A computation in plain Rust that gains from wider registers.
pub trait PlainLoops {
    /// What it returns.
    type Output;

    /// The computation. Mark it and what it calls `#[inline(always)]`: only what is inlined is compiled anew.
    fn run(self) -> Self::Output;
}

struct Plainly<P>(P);

impl<P: PlainLoops> Operation<f32> for Plainly<P> {
    type Output = P::Output;

    #[inline(always)]
    unsafe fn run<L: Lanes<Scalar = f32>, const MR: usize>(self) -> P::Output {
        self.0.run()
    }
}

/// Runs plain loops with the widest vector instructions that this processor has.
///
/// The arithmetic is that of the source, operation by operation (no sum is reordered, no product fused into a sum), so the result has the same
/// bits on every processor.
///
/// # Examples
/// ```
/// use dp_linalg::{PlainLoops, with_vector_instructions};
///
/// struct Doubled<'a>(&'a mut [f32]);
/// impl PlainLoops for Doubled<'_> {
///     type Output = ();
///     #[inline(always)]
///     fn run(self) {
///         self.0.iter_mut().for_each(|x| *x *= 2.0);
///     }
/// }
///
/// let mut numbers = [1.0, 2.5];
/// with_vector_instructions(Doubled(&mut numbers));
/// assert_eq!(numbers, [2.0, 5.0]);
/// ```
#[inline]
pub fn with_vector_instructions<P: PlainLoops>(loops: P) -> P::Output {
    f32::run(InstructionSet::detect(), Plainly(loops))
}

/// The name of the vector instructions in use: results of the same name are the same bits.
#[must_use]
pub fn vector_instructions() -> &'static str {
    InstructionSet::detect().name()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums and products that contraction or another order would change.
    struct Mixed<'a>(&'a [f32], &'a [f32]);

    impl PlainLoops for Mixed<'_> {
        type Output = (f32, f64);

        #[inline(always)]
        fn run(self) -> (f32, f64) {
            let mut sums = [0.0_f32; 8];
            for (a, b) in self.0.chunks_exact(8).zip(self.1.chunks_exact(8)) {
                for lane in 0..8 {
                    sums[lane] += a[lane] * b[lane];
                }
            }
            let wide = self.0.iter().map(|&a| f64::from(a) * f64::from(a));
            (sums.iter().sum(), wide.sum())
        }
    }

    #[test]
    fn results_have_the_same_bits_with_all_instructions() {
        let numbers = |k: u32| (1..=1003_u32).map(move |i| (i * k % 997) as f32 / 31.0 - 16.0);
        let (a, b): (Vec<f32>, Vec<f32>) = (numbers(7).collect(), numbers(13).collect());
        let bits = |(x, y): (f32, f64)| (x.to_bits(), y.to_bits());
        let expected = bits(Mixed(&a, &b).run());
        for isa in InstructionSet::available() {
            assert_eq!(bits(f32::run(isa, Plainly(Mixed(&a, &b)))), expected);
        }
        assert_eq!(bits(with_vector_instructions(Mixed(&a, &b))), expected);
    }
}
