//! Selects the instruction set at run time.

use std::ops::{Add, Div, Mul, Sub};

use super::lanes::{Lanes, Plain};

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__m256, __m256d, __m512, __m512d};

/// A set of vector instructions that this processor is known to support.
///
/// The field is private and [`detect`](Self::detect) and [`available`](Self::available) are the
/// only constructors, so a value is proof that its instructions can be executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InstructionSet(Level);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl InstructionSet {
    /// The widest set that this processor supports. Costs a few loads; std caches the answer.
    #[inline]
    pub(crate) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") {
                return Self(Level::Avx512);
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                return Self(Level::Avx2);
            }
        }
        Self(Level::Portable)
    }

    /// The name of the set.
    pub(super) const fn name(self) -> &'static str {
        match self.0 {
            Level::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => "avx512",
        }
    }

    /// Whether it includes AVX-512F.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    pub(super) const fn has_avx512(self) -> bool {
        matches!(self.0, Level::Avx512)
    }

    /// Every set that this processor supports, widest last.
    #[cfg(test)]
    pub(crate) fn available() -> Vec<Self> {
        let mut sets = vec![Self(Level::Portable)];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                sets.push(Self(Level::Avx2));
            }
            if is_x86_feature_detected!("avx512f") {
                sets.push(Self(Level::Avx512));
            }
        }
        sets
    }
}

/// A computation that is written once for all vector types.
pub(crate) trait Operation<T> {
    /// Its result.
    type Output;

    /// Runs with vectors `L` and blocks of `MR` rows, where `MR` divides `L::WIDTH`.
    ///
    /// # Safety
    /// The processor must support the instructions of `L`.
    unsafe fn run<L: Lanes<Scalar = T>, const MR: usize>(self) -> Self::Output;
}

/// The element types: `f32` and `f64`. Private, so nothing else can implement [`Real`](crate::Real).
pub(crate) trait Kernel:
    Copy
    + Default
    + PartialOrd
    + std::fmt::Debug
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Send
    + Sync
    + 'static
{
    /// One.
    const ONE: Self;

    /// Square root.
    fn root(self) -> Self;

    /// `1 / self`.
    fn reciprocal(self) -> Self;

    /// Neither zero, subnormal, infinite nor NaN.
    fn normal(self) -> bool;

    /// The same number, exactly.
    fn from_single(value: f32) -> Self;

    /// Clamps to `[-limit, limit]` and rounds toward zero; NaN becomes zero.
    fn truncate_within(self, limit: Self) -> Self;

    /// Elements in one vector.
    fn width(isa: InstructionSet) -> usize;

    /// Runs `operation` compiled for `isa`.
    fn run<O: Operation<Self>>(isa: InstructionSet, operation: O) -> O::Output;
}

/// Compiles `operation` with AVX-512.
///
/// # Safety
/// The processor must support AVX-512F.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn with_avx512<L: Lanes, O: Operation<L::Scalar>>(operation: O) -> O::Output {
    // SAFETY: the instructions are guaranteed by the caller.
    unsafe { operation.run::<L, 8>() }
}

/// Compiles `operation` with AVX2 and FMA.
///
/// # Safety
/// The processor must support AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn with_avx2<L: Lanes, O: Operation<L::Scalar>>(operation: O) -> O::Output {
    // SAFETY: the instructions are guaranteed by the caller.
    unsafe { operation.run::<L, 4>() }
}

macro_rules! kernel {
    ($scalar:ty, $wide:ty, $middle:ty, $plain:ty) => {
        impl Kernel for $scalar {
            const ONE: Self = 1.0;

            #[inline(always)]
            fn root(self) -> Self {
                self.sqrt()
            }

            #[inline(always)]
            fn reciprocal(self) -> Self {
                1.0 / self
            }

            #[inline(always)]
            fn normal(self) -> bool {
                self.is_normal()
            }

            #[inline(always)]
            fn from_single(value: f32) -> Self {
                value.into()
            }

            #[inline(always)]
            fn truncate_within(self, limit: Self) -> Self {
                if self.is_nan() {
                    0.0
                } else {
                    self.clamp(-limit, limit).trunc()
                }
            }

            #[inline]
            fn width(isa: InstructionSet) -> usize {
                match isa.0 {
                    Level::Portable => <$plain as Lanes>::WIDTH,
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx2 => <$middle as Lanes>::WIDTH,
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx512 => <$wide as Lanes>::WIDTH,
                }
            }

            #[inline]
            fn run<O: Operation<Self>>(isa: InstructionSet, operation: O) -> O::Output {
                // SAFETY: an `InstructionSet` exists only for instructions that the processor
                // supports (`Plain` needs none).
                unsafe {
                    match isa.0 {
                        Level::Portable => operation.run::<$plain, 4>(),
                        #[cfg(target_arch = "x86_64")]
                        Level::Avx2 => with_avx2::<$middle, O>(operation),
                        #[cfg(target_arch = "x86_64")]
                        Level::Avx512 => with_avx512::<$wide, O>(operation),
                    }
                }
            }
        }
    };
}

kernel!(f64, __m512d, __m256d, Plain<f64, 4>);
kernel!(f32, __m512, __m256, Plain<f32, 8>);

/// A computation in plain Rust that benefits from wider registers.
pub trait PlainLoops {
    /// Its result.
    type Output;

    /// The computation. Mark it and everything it calls `#[inline(always)]`: only inlined code is
    /// compiled for each instruction set.
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

/// Runs plain loops with the widest vector instructions that this processor supports.
///
/// The arithmetic is that of the source, operation by operation (sums are not reordered and
/// products are not fused into sums), so the result has the same bits on every processor.
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

/// The name of the vector instructions in use: results computed under the same name are
/// bit-identical.
#[must_use]
pub fn vector_instructions() -> &'static str {
    InstructionSet::detect().name()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums and products that would change if contracted or reordered.
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
