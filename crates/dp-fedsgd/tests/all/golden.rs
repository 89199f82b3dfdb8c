//! Models of seeded runs with full participation, bit for bit.

use dp_fedsgd::{
    BatchReduction, ClipSchedule, HeldBatches, PersonalizedObjective, Point, PpSgdParams,
    StepSchedule, Trainer,
};
use dp_mechanism::NoiseSource;

use crate::support::{ADD_REMOVE, Numbers, bits, paid, samples};

const N: usize = 70;
const DIM: usize = 3;

/// Least squares in plain loops, whose bits are the same on every machine.
struct Plain;

impl Plain {
    fn residual(at: Point<'_>, x: &[f32], y: f32) -> f64 {
        let both = at.shared.iter().zip(at.local).zip(x);
        let score = both.fold(0.0, |sum, ((w, own), &x)| sum + (w + own) * f64::from(x));
        score - f64::from(y)
    }

    fn add(at: Point<'_>, x: &[f32], y: f32, out: &mut [f64]) {
        let residual = Self::residual(at, x, y);
        let cells = out.iter_mut().zip(x);
        cells.for_each(|(out, &x)| *out += residual * f64::from(x));
    }
}

impl PersonalizedObjective for Plain {
    fn n_features(&self) -> usize {
        DIM
    }
    fn n_shared(&self) -> usize {
        DIM
    }
    fn n_local(&self) -> usize {
        DIM
    }
    fn loss(&self, at: Point<'_>, x: &[f32], y: f32) -> f64 {
        0.5 * Self::residual(at, x, y).powi(2)
    }
    fn grad_shared(&self, at: Point<'_>, x: &[f32], y: f32, out: &mut [f64]) {
        Self::add(at, x, y, out);
    }
    fn grad_local(&self, at: Point<'_>, x: &[f32], y: f32, out: &mut [f64]) {
        Self::add(at, x, y, out);
    }
}

/// One number that represents all bits of the shared parameters and of every user's local ones.
fn fingerprint(params: PpSgdParams) -> u64 {
    let data = samples(u32::try_from(N).unwrap(), DIM, 4, 3);
    let rows = HeldBatches::new(&data, 2).unwrap();
    let fit = params.check().unwrap();
    let plan = fit.plan_with_noise(DIM, 2.0, 1e-5, ADD_REMOVE).unwrap();
    let noise = &mut NoiseSource::insecure_seeded(5);
    let fitted = fit.with(&Plain).fit(&rows, &plan, paid(&plan), noise);
    let bits = bits(&fitted.unwrap().model, N).into_iter();
    bits.fold(0, |state, bits| Numbers(state ^ bits).word())
}

#[test]
fn seeded_models_are_what_they_have_been_since_the_first_version() {
    let plain = PpSgdParams::new(2.0, 0.3, 0.5, 6, N as f64);
    let mut average = plain;
    (average.average, average.keep_every) = (true, 2);
    average.local_schedule = StepSchedule::InverseSqrt;
    let mut quantile = plain;
    quantile.minimum_clients = Some(20.0);
    quantile.clip = ClipSchedule::Quantile {
        start: 0.5,
        quantile: 0.6,
        rate: 0.2,
        low: 0.1,
        high: 2.0,
    };
    let mut sums = plain.shrinking(0.1);
    sums.reduction = BatchReduction::Sum { rows_per_user: 2.0 };
    let mut one_model = plain;
    one_model.alpha = f64::INFINITY;
    let found = [plain, average, quantile, sums, one_model].map(fingerprint);
    let expected = [
        7_581_528_214_747_751_960,
        14_609_061_868_396_340_437,
        2_911_652_156_335_449_747,
        13_446_850_223_736_361_058,
        4_954_816_121_312_468_286,
    ];
    assert_eq!(found, expected, "{found:#x?}");
}
