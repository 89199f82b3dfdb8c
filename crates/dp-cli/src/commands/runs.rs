//! Commands that train, and commands that measure trained models.

use dp_personal::accounting::Plan;
use dp_personal::audit::Verdict as AuditVerdict;
use dp_personal::output::PlanOverview;
use dp_personal::quality::Verdict;
use dp_personal::settings::{
    AuditFederateSettings, AuditPersonalizeSettings, AuditSettings, AuditTuneSettings,
    EvaluateSettings, FederateSettings, OutputSettings, PersonalizeSettings, TrainSettings,
    TuneSettings,
};
use dp_personal::workers::Place;
use dp_personal::workflows::audit::AuditOutcome;
use dp_personal::workflows::federate::FederateOutcome;
use dp_personal::workflows::{audit, evaluate, federate, personalize, train, tune};
use serde_json::Value;

use crate::args::Flags;
use crate::error::{Error, Result};
use crate::progress::Bar;
use crate::screen::{print_json, print_summary};

pub(crate) fn train(flags: &Flags<TrainSettings>, place: Place<'_>) -> Result<()> {
    if flags.plan {
        return show_plan(flags.json, &train::plan(&flags.settings)?);
    }
    let outcome = train::train_at(&flags.settings, &mut Bar::default(), place)?;
    show(flags.json, &outcome.json, &outcome.summary)?;
    fail_if_worse(&flags.settings.output, outcome.verdict)
}

pub(crate) fn tune(flags: &Flags<TuneSettings>, place: Place<'_>) -> Result<()> {
    if flags.plan {
        return show_plan(flags.json, &tune::plan(&flags.settings)?);
    }
    let outcome = tune::tune_at(&flags.settings, &mut Bar::default(), place)?;
    show(flags.json, &outcome.json, &outcome.summary)?;
    fail_if_worse(&flags.settings.train.output, outcome.verdict)
}

pub(crate) fn personalize(flags: &Flags<PersonalizeSettings>, place: Place<'_>) -> Result<()> {
    if flags.plan {
        return show_plan(flags.json, &personalize::plan(&flags.settings)?);
    }
    let outcome = personalize::personalize_at(&flags.settings, &mut Bar::default(), place)?;
    show(flags.json, &outcome.json, &outcome.summary)?;
    fail_if_worse(&flags.settings.output, outcome.verdict)
}

pub(crate) fn federate(flags: &Flags<FederateSettings>, place: Place<'_>) -> Result<()> {
    if flags.plan {
        if flags.settings.epsilon.len() > 1 {
            let text = "--plan needs a single --epsilon: with several, the command explores and releases nothing";
            return Err(Error::Usage(text.to_owned()));
        }
        return show_plan(flags.json, &federate::plan(&flags.settings)?);
    }
    match federate::federate_at(&flags.settings, &mut Bar::default(), place)? {
        FederateOutcome::Certified(found) => {
            show(flags.json, &found.json, &found.summary)?;
            fail_if_worse(&flags.settings.output, found.verdict)
        }
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

/// Reports by the exit code that a baseline is better, if this was requested.
fn fail_if_worse(output: &OutputSettings, verdict: Option<Verdict>) -> Result<()> {
    match verdict.filter(|verdict| output.fail_if_worse && verdict.is_worse()) {
        Some(verdict) => Err(Error::Worse(verdict)),
        None => Ok(()),
    }
}

/// Reports a refuted claim, and an audit without enough power, also by the exit code.
fn judge(as_json: bool, outcome: &AuditOutcome) -> Result<()> {
    show(as_json, &outcome.json, &outcome.text)?;
    match outcome.verdict {
        AuditVerdict::Holds => Ok(()),
        AuditVerdict::Violated => Err(Error::Broken),
        AuditVerdict::Inconclusive => Err(Error::Inconclusive),
    }
}

/// Shows what a run will release and cost, so that users can decide before any data is read.
fn show_plan(as_json: bool, plan: &Plan) -> Result<()> {
    let found = PlanOverview::of(plan);
    show(as_json, &found.json, &found.text)
}

fn show(as_json: bool, json: &Value, text: &str) -> Result<()> {
    if as_json {
        print_json(json)
    } else {
        print_summary(text)
    }
}
