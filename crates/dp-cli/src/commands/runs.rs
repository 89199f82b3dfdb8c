//! Commands that train, and those that measure what was trained.

use dp_personal::audit::Verdict;
use dp_personal::settings::{
    AuditFederateSettings, AuditPersonalizeSettings, AuditSettings, AuditTuneSettings,
    EvaluateSettings, FederateSettings, PersonalizeSettings, TrainSettings, TuneSettings,
};
use dp_personal::workflows::audit::AuditOutcome;
use dp_personal::workflows::federate::FederateOutcome;
use dp_personal::workflows::{audit, evaluate, federate, personalize, train, tune};
use serde_json::Value;

use crate::args::Flags;
use crate::error::{Error, Result};
use crate::progress::Bar;
use crate::screen::{print, print_json};

pub(crate) fn train(flags: &Flags<TrainSettings>) -> Result<()> {
    let outcome = train::train(&flags.settings, &mut Bar::default())?;
    show(flags.json, &outcome.json, &outcome.summary)
}

pub(crate) fn tune(flags: &Flags<TuneSettings>) -> Result<()> {
    let outcome = tune::tune(&flags.settings, &mut Bar::default())?;
    show(flags.json, &outcome.json, &outcome.summary)
}

pub(crate) fn personalize(flags: &Flags<PersonalizeSettings>) -> Result<()> {
    let outcome = personalize::personalize(&flags.settings, &mut Bar::default())?;
    show(flags.json, &outcome.json, &outcome.summary)
}

pub(crate) fn federate(flags: &Flags<FederateSettings>) -> Result<()> {
    match federate::federate(&flags.settings, &mut Bar::default())? {
        FederateOutcome::Certified(found) => show(flags.json, &found.json, &found.summary),
        FederateOutcome::Exploration(found) => show(flags.json, &found.json, &found.summary),
    }
}

pub(crate) fn evaluate(flags: &Flags<EvaluateSettings>) -> Result<()> {
    let outcome = evaluate::evaluate(&flags.settings)?;
    show(flags.json, &outcome.json, &outcome.text)
}

pub(crate) fn audit(flags: &Flags<AuditSettings>) -> Result<()> {
    let outcome = audit::audit(&flags.settings, &mut Bar::default())?;
    judge(flags.json, &outcome)
}

pub(crate) fn audit_tune(flags: &Flags<AuditTuneSettings>) -> Result<()> {
    let outcome = tune::audit(&flags.settings, &mut Bar::default())?;
    judge(flags.json, &outcome)
}

pub(crate) fn audit_personalize(flags: &Flags<AuditPersonalizeSettings>) -> Result<()> {
    let outcome = personalize::audit(&flags.settings, &mut Bar::default())?;
    judge(flags.json, &outcome)
}

pub(crate) fn audit_federate(flags: &Flags<AuditFederateSettings>) -> Result<()> {
    let outcome = federate::audit(&flags.settings, &mut Bar::default())?;
    judge(flags.json, &outcome)
}

/// A claim that is refuted, and an audit without power, are told by the exit code as well.
fn judge(as_json: bool, outcome: &AuditOutcome) -> Result<()> {
    show(as_json, &outcome.json, &outcome.text)?;
    match outcome.verdict {
        Verdict::Holds => Ok(()),
        Verdict::Violated => Err(Error::Broken),
        Verdict::Inconclusive => Err(Error::Inconclusive),
    }
}

fn show(as_json: bool, json: &Value, text: &str) -> Result<()> {
    if as_json {
        print_json(json)
    } else {
        print(text)
    }
}
