//! The ledger's file under crashes, damage and rivals.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::fs;
use std::path::{Path, PathBuf};

use dp_accounting::{
    Budget, BudgetKind, Certificate, Error, Ledger, LedgerSummary, Measure, Plan, PlannedRelease,
    ReleaseRequest, Spend,
};
use dp_core::{Adjacency, ApproxDp, DpEvent, ReplaceFactor};
use proptest::prelude::*;
use tempfile::TempDir;

const TARGET: ApproxDp = ApproxDp {
    epsilon: 1.0,
    delta: 1e-5,
};
const ADD_REMOVE: Adjacency = Adjacency::AddRemoveUser;

fn budget() -> Budget {
    Budget::new(TARGET, ADD_REMOVE).unwrap()
}

/// A plan of two releases that takes the given share of the budget's mu^2 or so.
fn plan(epsilon: f64) -> Plan {
    let requests = [
        ReleaseRequest::new("counts é \"1\"}", 1.0, ReplaceFactor::Two, 3),
        ReleaseRequest::new("gramians\n2", 4.0, ReplaceFactor::SqrtTwo, 30),
    ];
    Plan::calibrate(ApproxDp { epsilon, ..TARGET }, ADD_REMOVE, &requests).unwrap()
}

/// A folder in memory where the system has one: thousands of flushes take seconds on a disk.
fn scratch() -> (TempDir, PathBuf) {
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() {
        memory.to_owned()
    } else {
        std::env::temp_dir()
    };
    let folder = tempfile::tempdir_in(parent).unwrap();
    let path = folder.path().join("ledger.jsonl");
    (folder, path)
}

fn open(path: &Path) -> Result<Ledger, Error> {
    Ledger::open(path, "ratings", budget())
}

fn mu_squared(ledger: &Ledger) -> f64 {
    ledger.spent().unwrap().mu.powi(2)
}

#[test]
fn budget_pays_for_exactly_one_full_plan() {
    let (_folder, path) = scratch();
    let full = plan(1.0);
    let mut ledger = open(&path).unwrap();
    let spends = ledger.reserve(&full).unwrap();
    assert_eq!(spends.len(), 2);
    assert_eq!(spends[1].label(), "gramians\n2");
    assert_eq!(spends[1].event(), full.releases()[1].event());
    assert_eq!(
        (spends[1].n_draws(), spends[1].data_set_id()),
        (30, "ratings")
    );
    let error = ledger.reserve(&full).unwrap_err();
    assert!(matches!(
        error,
        Error::BudgetSpent { requested, spent, budget, measure: Measure::MuSquared }
            if requested <= budget && spent <= budget && requested + spent > budget
    ));
    // Nothing was written by the refusal, and opening again still refuses.
    drop(ledger);
    let mut reopened = open(&path).unwrap();
    assert_eq!(reopened.n_releases(), 2);
    assert!(reopened.reserve(&full).is_err());
    assert!(reopened.remaining().unwrap().mu < 1e-5);
}

#[test]
fn spending_survives_and_adds_up() {
    let (_folder, path) = scratch();
    let mut costs = 0.0;
    let mut ids = Vec::new();
    for epsilon in [0.3, 0.1, 0.5] {
        let mut ledger = open(&path).unwrap();
        assert!((mu_squared(&ledger) - costs).abs() <= 1e-14);
        let part = plan(epsilon);
        costs += part.mu_squared().unwrap();
        ids.extend(
            ledger
                .reserve(&part)
                .unwrap()
                .iter()
                .map(|s| s.release_id().to_owned()),
        );
    }
    let ledger = open(&path).unwrap();
    let left = ledger.remaining().unwrap().mu.powi(2);
    assert!((mu_squared(&ledger) / costs - 1.0).abs() < 1e-14);
    assert!((left + costs - plan(1.0).mu_squared().unwrap()).abs() < 1e-12);
    // Release ids are the hashes of the lines, all different, and stand in the file.
    let text = fs::read_to_string(&path).unwrap();
    for (i, id) in ids.iter().enumerate() {
        assert!(
            text.lines()
                .nth(i + 1)
                .unwrap()
                .ends_with(&format!("\"hash\":\"{id}\"}}"))
        );
        assert_eq!(ids.iter().filter(|other| *other == id).count(), 1);
    }
}

#[test]
fn refused_plan_is_refused_as_a_whole() {
    let mut ledger = Ledger::in_memory("ratings", budget()).unwrap();
    let _spends = ledger.reserve(&plan(0.9)).unwrap();
    let before = ledger.spent().unwrap();
    // One of this plan's two releases would still fit.
    assert!(matches!(
        ledger.reserve(&plan(0.45)),
        Err(Error::BudgetSpent { .. })
    ));
    assert_eq!(ledger.spent().unwrap(), before);
    assert_eq!(ledger.n_releases(), 2);
}

#[test]
fn draws_of_all_plans_together_must_fit_the_reserve() {
    let high = ApproxDp {
        epsilon: 40.0,
        delta: 1e-9,
    };
    let mut ledger = Ledger::in_memory("d", Budget::new(high, ADD_REMOVE).unwrap()).unwrap();
    let small = Plan::calibrate(
        ApproxDp {
            epsilon: 5.0,
            ..high
        },
        ADD_REMOVE,
        &[ReleaseRequest::new("sum", 1.0, ReplaceFactor::Two, 1_000)],
    )
    .unwrap();
    assert!(ledger.reserve(&small).is_ok());
    assert!(matches!(
        ledger.reserve(&small),
        Err(Error::SamplerAllowance {
            n_draws: 2_000,
            allowed: 1_411
        })
    ));
    assert_eq!(ledger.n_releases(), 1);
}

#[test]
fn plan_for_other_neighbours_is_refused() {
    let other = Budget::new(TARGET, Adjacency::ReplaceUser).unwrap();
    let mut ledger = Ledger::in_memory("ratings", other).unwrap();
    assert!(matches!(
        ledger.reserve(&plan(0.1)),
        Err(Error::AdjacencyMismatch { .. })
    ));
}

#[test]
fn empty_plan_is_free() {
    let (_folder, path) = scratch();
    let mut ledger = open(&path).unwrap();
    let empty = Plan::calibrate(TARGET, ADD_REMOVE, &[]).unwrap();
    let before = fs::metadata(&path).unwrap().len();
    assert!(ledger.reserve(&empty).unwrap().is_empty());
    assert_eq!(fs::metadata(&path).unwrap().len(), before);
}

#[test]
fn second_writer_is_kept_out_until_the_first_leaves() {
    let (_folder, path) = scratch();
    let first = open(&path).unwrap();
    assert!(matches!(open(&path), Err(Error::LedgerLocked { path: p }) if p == path));
    drop(first);
    assert!(open(&path).is_ok());
}

#[test]
fn ledger_of_something_else_is_refused_and_untouched() {
    let (_folder, path) = scratch();
    drop(open(&path).unwrap());
    let before = fs::read(&path).unwrap();
    let with = |target, adjacency| Budget::new(target, adjacency).unwrap();
    let tries = [
        (
            "filter",
            "ratings",
            Budget::schedule(TARGET, ADD_REMOVE).unwrap(),
        ),
        (
            "filter",
            "ratings",
            Budget::rdp(TARGET, ADD_REMOVE, 16.0).unwrap(),
        ),
        ("data_set", "other", budget()),
        ("adjacency", "ratings", with(TARGET, Adjacency::ReplaceUser)),
        (
            "epsilon",
            "ratings",
            with(
                ApproxDp {
                    epsilon: 1.0_f64.next_up(),
                    ..TARGET
                },
                ADD_REMOVE,
            ),
        ),
        (
            "delta",
            "ratings",
            with(
                ApproxDp {
                    delta: 2e-5,
                    ..TARGET
                },
                ADD_REMOVE,
            ),
        ),
    ];
    for (expected, data_set, budget) in tries {
        let error = Ledger::open(&path, data_set, budget).unwrap_err();
        assert!(matches!(error, Error::LedgerMismatch { field, .. } if field == expected));
    }
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn files_that_are_no_ledger_are_left_alone() {
    let (folder, path) = scratch();
    for text in [
        "shopping list",
        "shopping\nlist\n",
        "\n",
        "{\"ledger\":\"else\"}",
    ] {
        fs::write(&path, text).unwrap();
        assert!(
            matches!(open(&path), Err(Error::LedgerCorrupt { line: 1, .. })),
            "{text}"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
    assert!(matches!(open(folder.path()), Err(Error::Io { .. })));
    assert!(matches!(
        open(&folder.path().join("none/ledger")),
        Err(Error::Io { .. })
    ));
}

/// A ledger file after two plans: its bytes, and for each length that the file had while spends
/// were out, the cost that had been handed out by then.
fn history(path: &Path) -> (Vec<u8>, Vec<(usize, f64)>) {
    let mut ledger = open(path).unwrap();
    let mut handed_out = vec![(0, 0.0)];
    for epsilon in [0.2, 0.3] {
        let spends: Vec<Spend> = ledger.reserve(&plan(epsilon)).unwrap();
        assert_eq!(spends.len(), 2);
        let length = usize::try_from(fs::metadata(path).unwrap().len()).unwrap();
        handed_out.push((length, mu_squared(&ledger)));
    }
    (fs::read(path).unwrap(), handed_out)
}

/// A mended file can be opened, spent from and opened again.
fn check_that_it_goes_on(path: &Path, counted: f64) {
    let mut ledger = open(path).unwrap();
    assert!((mu_squared(&ledger) - counted).abs() < 1e-15);
    let extra = plan(0.1);
    assert_eq!(ledger.reserve(&extra).unwrap().len(), 2);
    drop(ledger);
    let again = mu_squared(&open(path).unwrap());
    assert!((again - counted - extra.mu_squared().unwrap()).abs() < 1e-14);
}

#[test]
fn crash_at_any_byte_never_loses_a_spend() {
    let (_folder, path) = scratch();
    let (bytes, handed_out) = history(&path);
    let total = handed_out[2].1;
    for cut in 0..=bytes.len() {
        fs::write(&path, &bytes[..cut]).unwrap();
        let due = handed_out
            .iter()
            .rfind(|(length, _)| *length <= cut)
            .unwrap()
            .1;
        let ledger = open(&path).unwrap();
        let counted = mu_squared(&ledger);
        assert!(
            counted >= due * (1.0 - 1e-15),
            "cut at {cut}: {counted} < {due}"
        );
        assert!(counted <= total * (1.0 + 1e-15), "cut at {cut}");
        drop(ledger);
        if cut % 13 == 0 || bytes.get(cut) == Some(&b'\n') {
            check_that_it_goes_on(&path, counted);
        }
    }
}

#[test]
fn crash_while_mending_is_mended_too() {
    let (_folder, path) = scratch();
    let (bytes, handed_out) = history(&path);
    let torn = &bytes[..bytes.len() - 40];
    fs::write(&path, torn).unwrap();
    let counted = mu_squared(&open(&path).unwrap());
    // the torn line lacks nothing but a part of its hash, so it counts
    assert!(counted > handed_out[1].1 && (counted - handed_out[2].1).abs() < 1e-15);
    let mended = fs::read(&path).unwrap();
    assert_eq!(&mended[..torn.len()], torn);
    for cut in torn.len()..=mended.len() {
        fs::write(&path, &mended[..cut]).unwrap();
        assert!(
            (mu_squared(&open(&path).unwrap()) - counted).abs() < 1e-15,
            "cut at {cut}"
        );
        assert!(
            (mu_squared(&open(&path).unwrap()) - counted).abs() < 1e-15,
            "cut at {cut}"
        );
    }
}

#[test]
fn any_changed_byte_is_detected() {
    let (_folder, path) = scratch();
    let (whole, _) = history(&path);
    fs::write(&path, &whole[..whole.len() - 40]).unwrap();
    drop(open(&path).unwrap());
    let mut ledger = open(&path).unwrap();
    let _spends = ledger.reserve(&plan(0.1)).unwrap();
    drop(ledger);
    // Header, whole records, a sealed line and records after it.
    let bytes = fs::read(&path).unwrap();
    for at in 0..bytes.len() {
        for flip in [0x01, 0x2a] {
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            fs::write(&path, &damaged).unwrap();
            let line = bytes[..at].iter().filter(|&&b| b == b'\n').count() + 1;
            match open(&path) {
                Err(Error::LedgerCorrupt { line: found, .. }) => assert_eq!(found, line, "{at}"),
                other => panic!("byte {at} changed unnoticed: {other:?}"),
            }
        }
    }
}

#[test]
fn removed_or_swapped_lines_are_detected() {
    let (_folder, path) = scratch();
    let (bytes, _) = history(&path);
    let text = String::from_utf8(bytes).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    for order in [
        vec![0, 2, 3, 4],
        vec![0, 1, 3, 4],
        vec![0, 2, 1, 3, 4],
        vec![0, 1, 1, 2],
    ] {
        let changed: String = order.iter().map(|&i| format!("{}\n", lines[i])).collect();
        fs::write(&path, changed).unwrap();
        assert!(
            matches!(open(&path), Err(Error::LedgerCorrupt { .. })),
            "{order:?}"
        );
    }
}

#[test]
fn line_of_another_ledger_is_detected() {
    let (_folder, path) = scratch();
    let (_other_folder, other_path) = scratch();
    let bytes = history(&path).0;
    let other = history(&other_path).0;
    // Same data set, plan and sequence number; only the chain before it differs.
    let last_line = |b: &[u8]| b[..b.len() - 1].iter().rposition(|&c| c == b'\n').unwrap() + 1;
    let mut spliced = bytes[..last_line(&bytes)].to_vec();
    spliced.extend(&other[last_line(&other)..]);
    assert_ne!(spliced, bytes);
    fs::write(&path, spliced).unwrap();
    assert!(matches!(
        open(&path),
        Err(Error::LedgerCorrupt { line: 5, .. })
    ));
}

/// Releases of chosen noise, for a plan.
fn gaussians(noise: &[(f64, bool)]) -> Vec<PlannedRelease> {
    let factor = |psd| match psd {
        true => ReplaceFactor::SqrtTwo,
        false => ReplaceFactor::Two,
    };
    noise
        .iter()
        .map(|&(z, psd)| PlannedRelease::gaussian("r", z, factor(psd), 1).unwrap())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// What a plan guarantees is a budget that pays for it, and nothing noticeable beyond it.
    #[test]
    fn every_plan_fits_a_budget_of_its_own_guarantee(
        noise in prop::collection::vec((0.5..2000.0_f64, any::<bool>()), 1..30),
        log_delta in -12.0..-0.3_f64,
        replace: bool,
    ) {
        let adjacency = if replace { Adjacency::ReplaceUser } else { ADD_REMOVE };
        let delta = 10.0_f64.powf(log_delta);
        let chosen = Plan::with_noise_multipliers(delta, adjacency, gaussians(&noise));
        prop_assume!(!matches!(chosen, Err(Error::SamplerAllowance { .. })));
        let chosen = chosen.unwrap();
        let requests: Vec<_> = noise
            .iter()
            .map(|&(share, _)| ReleaseRequest::new("r", share, ReplaceFactor::SqrtTwo, 1))
            .collect();
        let calibrated = Plan::calibrate(chosen.target(), adjacency, &requests).unwrap();
        for (plan, target) in [
            (&chosen, chosen.target()),
            (&calibrated, calibrated.target()),
            (&calibrated, calibrated.guarantee()),
        ] {
            if target.epsilon > 0.0 {
                let budget = Budget::new(target, adjacency).unwrap();
                let mut ledger = Ledger::in_memory("d", budget).unwrap();
                let spends = ledger.reserve(plan);
                prop_assert!(spends.is_ok(), "{:?}", spends.err());
                prop_assert_eq!(spends.unwrap().len(), noise.len());
                // epsilon 0 costs nothing that delta does not cover
                prop_assert!(plan.guarantee().epsilon <= 0.0 || ledger.reserve(plan).is_err());
            }
        }
    }
}

#[test]
fn a_plan_a_hair_above_the_budget_is_refused() {
    let full = plan(1.0);
    let budget = Budget::new(full.guarantee(), ADD_REMOVE).unwrap();
    let requests = [ReleaseRequest::new("sum", 1.0, ReplaceFactor::Two, 1)];
    let above = ApproxDp {
        epsilon: full.guarantee().epsilon * (1.0 + 1e-9),
        ..TARGET
    };
    let above = Plan::calibrate(above, ADD_REMOVE, &requests).unwrap();
    let mut ledger = Ledger::in_memory("d", budget).unwrap();
    assert!(ledger.reserve(&above).is_err());
    assert!(ledger.reserve(&full).is_ok());
}

#[test]
fn a_ledger_of_version_1_is_opened_and_goes_on_as_version_1() {
    let fixture = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/fixtures/ledger-v1.jsonl"
    );
    let (_folder, path) = scratch();
    fs::copy(fixture, &path).unwrap();
    let summary = Ledger::audit(&path).unwrap();
    assert_eq!((summary.schema_version, summary.releases.len()), (1, 2));
    assert_eq!(summary.budget, budget());
    // the certificate of the run that wrote it names these lines
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
    let text = fs::read_to_string(format!("{folder}/certificate-v1.json")).unwrap();
    summary
        .covers(&Certificate::from_json(&text).unwrap())
        .unwrap();

    let mut ledger = Ledger::open(&path, "ratings-2024", budget()).unwrap();
    let spent = mu_squared(&ledger);
    assert!((spent - 0.020_223_840_306).abs() < 1e-9, "{spent}");
    let _spends = ledger.reserve(&plan(0.1)).unwrap();
    assert!(matches!(
        ledger.reserve(&plan(0.9)),
        Err(Error::BudgetSpent { .. })
    ));
    drop(ledger);
    let reopened = Ledger::open(&path, "ratings-2024", budget()).unwrap();
    assert_eq!(reopened.n_releases(), 4);
    let before = fs::read(fixture).unwrap();
    let after = fs::read(&path).unwrap();
    assert_eq!(&after[..before.len()], before);
    assert!(!String::from_utf8(after).unwrap().contains("filter"));
}

#[test]
fn a_renyi_ledger_counts_other_mechanisms_at_its_order() {
    let (_folder, path) = scratch();
    let budget = Budget::rdp(TARGET, ADD_REMOVE, 16.0).unwrap();
    let step = |label: &str| {
        let event = DpEvent::Composed {
            events: vec![DpEvent::gaussian(20.0), DpEvent::laplace(40.0)],
        };
        PlannedRelease::new(label, event, 2)
    };
    // such a plan can only be made once an accountant answers for Laplace
    let plan = |label: &str| match Plan::with_noise_multipliers(1e-5, ADD_REMOVE, vec![step(label)])
    {
        Ok(plan) => plan,
        Err(Error::NotCertified { .. }) => {
            let gaussian = PlannedRelease::gaussian(label, 12.0, ReplaceFactor::Two, 2).unwrap();
            Plan::with_noise_multipliers(1e-5, ADD_REMOVE, vec![gaussian]).unwrap()
        }
        Err(other) => panic!("{other}"),
    };
    let mut ledger = Ledger::open(&path, "ratings", budget).unwrap();
    assert!(ledger.spent().is_err() && ledger.remaining().is_err());
    let mut n_paid = 0;
    while ledger.reserve(&plan("step")).is_ok() {
        n_paid += 1;
        assert!(n_paid < 1_000);
    }
    let balance = ledger.balance();
    assert_eq!(balance.measure, Measure::Rdp);
    assert!(n_paid > 1 && balance.spent <= balance.budget);
    let each = balance.spent / f64::from(n_paid);
    assert!(balance.spent + each > balance.budget);
    drop(ledger);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("{\"ledger\":\"dp-personal\",\"schema_version\":2,"));
    assert!(text.contains("\"filter\":{\"kind\":\"rdp\",\"order\":16.0}"));
    assert!(text.contains("\"rdp\":") && !text.contains("\"mu_squared\":"));
    let mut reopened = Ledger::open(&path, "ratings", budget).unwrap();
    assert_eq!(reopened.balance(), balance);
    assert!(matches!(
        reopened.reserve(&plan("more")),
        Err(Error::BudgetSpent {
            measure: Measure::Rdp,
            ..
        })
    ));
    drop(reopened);
    let other = Budget::rdp(TARGET, ADD_REMOVE, 17.0).unwrap();
    assert!(matches!(
        Ledger::open(&path, "ratings", other),
        Err(Error::LedgerMismatch {
            field: "filter",
            ..
        })
    ));
    let found = Ledger::open_or_create(&path, "ratings", other).unwrap();
    assert_eq!(found.budget().kind(), BudgetKind::Rdp { order: 16.0 });
    for order in [1.0, 1.001, f64::NAN, f64::INFINITY] {
        let made = Budget::rdp(TARGET, ADD_REMOVE, order)
            .and_then(|budget| Ledger::in_memory("d", budget));
        assert!(matches!(made, Err(Error::Param(_))), "{order}");
    }
}

#[test]
fn a_schedule_is_reserved_whole_and_once() {
    let (_folder, path) = scratch();
    let budget = Budget::schedule(TARGET, ADD_REMOVE).unwrap();
    let mut ledger = Ledger::open(&path, "ratings", budget).unwrap();
    let too_much = Plan::calibrate(
        ApproxDp {
            epsilon: 1.1,
            ..TARGET
        },
        ADD_REMOVE,
        &[ReleaseRequest::new("sum", 1.0, ReplaceFactor::Two, 1)],
    )
    .unwrap();
    assert!(matches!(
        ledger.reserve(&too_much),
        Err(Error::BudgetSpent {
            measure: Measure::Epsilon,
            ..
        })
    ));
    assert!(ledger.balance().spent.to_bits() == 0 && ledger.n_releases() == 0);
    assert_eq!(ledger.reserve(&plan(0.3)).unwrap().len(), 2);
    // the rest of the budget is gone: what ran has been seen
    let again = |ledger: &mut Ledger| ledger.reserve(&plan(0.01));
    assert!(matches!(
        again(&mut ledger),
        Err(Error::ScheduleReserved { n_releases: 2 })
    ));
    drop(ledger);
    let mut reopened = Ledger::open(&path, "ratings", budget).unwrap();
    assert!(again(&mut reopened).is_err());
    let balance = reopened.balance();
    assert!((balance.spent - balance.budget).abs() < 1e-300);
    drop(reopened);
    // a crash that leaves one of its two lines leaves a reserved schedule
    let text = fs::read_to_string(&path).unwrap();
    let two: Vec<&str> = text.lines().take(2).collect();
    fs::write(&path, format!("{}\n", two.join("\n"))).unwrap();
    let mut torn = Ledger::open(&path, "ratings", budget).unwrap();
    assert!(again(&mut torn).is_err());
}

#[test]
fn an_audit_reads_beside_a_writer_and_changes_nothing() {
    let (_folder, path) = scratch();
    let mut ledger = open(&path).unwrap();
    let part = plan(0.5);
    let spends = ledger.reserve(&part).unwrap();
    let before = fs::read(&path).unwrap();
    let summary = Ledger::audit(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!((summary.releases.len(), summary.torn), (2, false));
    assert_eq!(summary.balance, ledger.balance());
    assert_eq!(
        summary.releases,
        spends.iter().map(Spend::record).collect::<Vec<_>>()
    );
    // a torn end is reported, counted where it can be read, no release, and left alone
    drop(ledger);
    fs::write(&path, &before[..before.len() - 5]).unwrap();
    let torn = Ledger::audit(&path).unwrap();
    assert_eq!((torn.releases.len(), torn.torn), (1, true));
    assert_eq!(torn.balance, summary.balance);
    assert_eq!(fs::read(&path).unwrap().len(), before.len() - 5);
    for bytes in [&b""[..], b"{", b"x\n", &before[1..]] {
        assert!(matches!(
            LedgerSummary::from_bytes(bytes),
            Err(Error::LedgerCorrupt { .. })
        ));
    }
}

#[test]
fn a_certificate_is_covered_only_by_the_ledger_that_paid() {
    let (_folder, path) = scratch();
    let part = plan(0.5);
    let mut ledger = open(&path).unwrap();
    let records: Vec<_> = ledger
        .reserve(&part)
        .unwrap()
        .iter()
        .map(Spend::record)
        .collect();
    let certificate = Certificate::builder(&part, "ratings")
        .releases(records)
        .build()
        .unwrap();
    let summary = Ledger::audit(&path).unwrap();
    summary.covers(&certificate).unwrap();
    let mut unpaid = Ledger::in_memory("ratings", budget()).unwrap();
    let records = unpaid
        .reserve(&part)
        .unwrap()
        .iter()
        .map(Spend::record)
        .collect();
    let elsewhere = Certificate::builder(&part, "ratings")
        .releases(records)
        .build()
        .unwrap();
    let mut dearer = certificate.clone();
    dearer.releases[1].event = DpEvent::gaussian(1e-3);
    let mut longer = certificate.clone();
    longer.releases[0].n_draws += 1;
    for wrong in [elsewhere, dearer, longer] {
        assert!(matches!(
            summary.covers(&wrong),
            Err(Error::NotInLedger { .. })
        ));
    }
    let mut other = certificate;
    other.data_set_id = "else".to_owned();
    assert!(matches!(
        summary.covers(&other),
        Err(Error::CertificateMismatch {
            field: "data_set_id",
            ..
        })
    ));
}
