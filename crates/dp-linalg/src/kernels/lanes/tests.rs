use super::super::dispatch::{InstructionSet, Kernel, Operation};
use super::Lanes;
use std::marker::PhantomData;

/// Reads two vectors of 0, 1, 2, ... and returns their upper halves and those rotated by 1 to 4.
struct Halves<T>(PhantomData<T>);

impl<T: Kernel> Operation<T> for Halves<T> {
    type Output = Vec<Vec<T>>;

    #[inline(always)]
    unsafe fn run<L: Lanes<Scalar = T>, const MR: usize>(self) -> Self::Output {
        let mut numbers = vec![T::default(); 2 * L::WIDTH];
        for at in 1..numbers.len() {
            numbers[at] = numbers[at - 1] + T::ONE;
        }
        // SAFETY: there are two vectors of numbers, and space for one.
        unsafe {
            let (low, high) = (
                L::load(numbers.as_ptr()),
                L::load(numbers[L::WIDTH..].as_ptr()),
            );
            let halves = low.upper_halves(high);
            let turned = [
                halves,
                halves.turn_halves::<1>(),
                halves.turn_halves::<2>(),
                halves.turn_halves::<3>(),
                halves.turn_halves::<4>(),
            ];
            turned
                .map(|vector| {
                    let mut out = vec![T::default(); L::WIDTH];
                    vector.store(out.as_mut_ptr());
                    out
                })
                .to_vec()
        }
    }
}

fn assert_turns<T: Kernel + Into<f64>>() {
    for isa in InstructionSet::available() {
        for (by, lanes) in T::run(isa, Halves(PhantomData::<T>))
            .into_iter()
            .enumerate()
        {
            let half = lanes.len() / 2;
            let place = |lane: usize| lane / half * 2 * half + half + (lane + by) % half;
            let expected: Vec<f64> = (0..2 * half)
                .map(|lane| u8::try_from(place(lane)).unwrap().into())
                .collect();
            let found: Vec<f64> = lanes.into_iter().map(Into::into).collect();
            assert_eq!(found, expected, "{isa:?}, turned by {by}");
        }
    }
}

#[test]
fn upper_halves_turn_on_every_instruction_set() {
    assert_turns::<f32>();
    assert_turns::<f64>();
}
