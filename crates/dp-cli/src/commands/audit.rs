//! `dp audit`: what whole training runs give away, measured with planted users.

use dp_audit::{AuditedFactorization, Canaries, RunAudit, RunSettings, audit_run};
use dp_core::{ApproxDp, ParamError, Private};
use dp_data::LongTailRatings;
use dp_mechanism::NoiseSource;
use dp_multitask::MatrixFactorization;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

use crate::args::{AuditArgs, Method};
use crate::error::{Error, Result};
use crate::output;

/// Users, items and ratings of the generated data that the planted users hide among.
const SHAPE: (usize, usize, usize) = (300, 200, 12_000);

/// What a planted user rates: far beyond every bound, so that each is reached.
const CANARY_RATING: f32 = 1e4;

/// Most items that a planted user is given.
const MOST_ITEMS: f64 = 100.0;

pub(crate) fn run(args: &AuditArgs) -> Result<()> {
    let target = ApproxDp::target(args.epsilon, args.delta)?;
    let Method::Adadpals = args.method;
    let fit = super::train::settings(&args.settings, target).check()?;
    let settings = run_settings(args)?;
    let canaries = canaries(args, &fit)?;
    let trainer =
        AuditedFactorization::new(fit, canaries.n_items(), target).map_err(Error::Audit)?;
    let audit = audit_run(
        &trainer,
        &canaries,
        &settings,
        NoiseSource::operating_system,
    )
    .map_err(Error::Audit)?;
    print(args, &audit)?;
    if audit.verdict.holds() {
        Ok(())
    } else {
        Err(Error::Broken)
    }
}

fn run_settings(args: &AuditArgs) -> Result<RunSettings> {
    if !(args.confidence > 0.5 && args.confidence < 1.0) {
        return Err(Error::Param(ParamError {
            name: "confidence",
            value: args.confidence,
            expected: "a number above 0.5 and below 1",
        }));
    }
    Ok(RunSettings {
        n_runs: args.runs,
        confidence: args.confidence,
        coin_seed: args.data_seed,
        ..RunSettings::default()
    })
}

/// Generated ratings with planted users, each with as many items as the bound on counts lets one
/// user have in full.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to 1..=100"
)]
fn canaries(args: &AuditArgs, fit: &MatrixFactorization) -> Result<Canaries> {
    let (n_users, n_items, n_ratings) = SHAPE;
    let mut rng = ChaCha20Rng::seed_from_u64(args.data_seed);
    let ratings = LongTailRatings::new(n_users, n_items, n_ratings).generate(&mut rng)?;
    let base = Private::new(ratings.interactions().expose().clone());
    let items_each = fit.params().count_clip_norm.powi(2).clamp(1.0, MOST_ITEMS) as usize;
    Canaries::new(base, args.canaries, items_each, CANARY_RATING).map_err(Error::Audit)
}

fn print(args: &AuditArgs, audit: &RunAudit) -> Result<()> {
    if args.json {
        return output::print_json(&serde_json::to_value(audit)?);
    }
    output::print(&format!(
        "{audit}\n\
         An audit can refute a claim and never prove one. Data: generated, with {} planted users.\n",
        args.canaries
    ))
}
