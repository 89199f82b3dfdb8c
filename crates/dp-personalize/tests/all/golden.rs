//! Models under seeded noise are bit for bit the same as before the trainers used the kernel's
//! runs.

use dp_core::UserSamples;
use dp_data::SharedSubspace;
use dp_personalize::{
    Candidates, ExponentialSelectionParams, ResidualAltMinParams, SingleModelParams,
};
use rand::SeedableRng;

use crate::support::{ADJACENCIES, DIM, alt_min, fit, made, residual, target, variants};

/// FNV-1a over the bits of the numbers.
fn hash(values: &[f64]) -> u64 {
    let bytes = values.iter().flat_map(|x| x.to_bits().to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Too many rows for users to be batched.
fn many_rows() -> UserSamples {
    let set_up = SharedSubspace {
        n_users: 70,
        dim: DIM,
        rows_per_user: 70,
        ..SharedSubspace::section_6()
    };
    let rng = &mut rand_chacha::ChaCha20Rng::seed_from_u64(2);
    set_up.generate(rng).unwrap().samples
}

/// All variants of alternating minimisation, refinement with whitening and without, the single model, the exponential mechanism.
fn hashes(samples: &UserSamples) -> Vec<u64> {
    let [add_remove, replace] = ADJACENCIES;
    let goal = target(5.0);
    let mut found = Vec::new();
    for settings in variants() {
        let fitted = alt_min(settings, samples, goal, add_remove).unwrap();
        found.push(hash(fitted.model.basis()));
    }
    let whitened = ResidualAltMinParams::new(2);
    let unwhitened = ResidualAltMinParams {
        whitening: None,
        ..whitened
    };
    for settings in [whitened, unwhitened] {
        let fitted = residual(settings, samples, goal, replace).unwrap();
        found.push(hash(fitted.model.basis()));
    }
    let single = SingleModelParams::new(3.0, 2.0).check().unwrap();
    let fitted = fit(&single, samples, goal, add_remove).unwrap();
    found.push(hash(fitted.model.coefficients()));
    let net = Candidates::net(DIM, 1, 3).unwrap();
    let selection = ExponentialSelectionParams::new(0.1).check(net).unwrap();
    let fitted = fit(&selection, samples, goal, add_remove).unwrap();
    found.push(hash(fitted.model.basis()));
    found
}

/// Instruction sets round contributions differently, so the bits are those of one of them.
#[cfg(target_arch = "x86_64")]
#[test]
fn seeded_models_keep_their_bits() {
    const FEW: [u64; 11] = [
        0x3e42_dec1_92c2_159e, // variant 0
        0xac8d_42b8_059c_f9af, // variant 1
        0x9b41_2d43_a42b_4c3e, // variant 2
        0x4714_1d66_f318_6d05, // variant 3
        0xafde_27d4_d313_9ea0, // variant 4
        0x0563_f6df_2a56_970c, // variant 5
        0xb102_f6ec_f5e0_93e5, // variant 6
        0xaebb_3ff5_5ace_e7b6, // residual true
        0xd90f_d5c6_bb84_a623, // residual false
        0xea97_014c_159b_8bcd, // single
        0x27f6_7866_6900_f0d0, // selection
    ];
    const MANY: [u64; 11] = [
        0xbecd_e92a_9738_379b, // variant 0
        0x1fcf_4a01_b1c1_d190, // variant 1
        0x99a3_b690_eddd_b92e, // variant 2
        0xb48a_9581_5fe2_9aed, // variant 3
        0x66f2_7d7c_c6a5_1288, // variant 4
        0x0ba5_0d72_9b85_8b2d, // variant 5
        0x7c5f_d238_0383_8059, // variant 6
        0xbe52_4dd2_6b35_20b3, // residual true
        0xb6cf_e69b_2c2c_d044, // residual false
        0x11f1_5497_98da_7df1, // single
        0xffb5_2aa2_ad84_dd60, // selection
    ];
    if !is_x86_feature_detected!("avx512f") {
        return;
    }
    assert_eq!(hashes(&made(80, 0.5).samples), FEW);
    assert_eq!(hashes(&many_rows()), MANY);
}
