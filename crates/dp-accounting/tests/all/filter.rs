//! Filters and the odometer: what they accept, and that their guarantees hold.

use dp_accounting::{
    Error, GaussianFilter, IndividualGaussianFilter, Measure, Odometer, RdpFilter, gdp,
};
use dp_core::{Adjacency, ApproxDp, DpEvent, Gdp, Private};
use proptest::prelude::*;

const ADD_REMOVE: Adjacency = Adjacency::AddRemoveUser;
const REPLACE: Adjacency = Adjacency::ReplaceUser;
const TARGET: ApproxDp = ApproxDp {
    epsilon: 1.0,
    delta: 1e-5,
};

#[test]
fn gaussian_filter_takes_mu_squared_in_any_order_up_to_the_budget_and_no_further() {
    let budget = gdp::mu_for(TARGET).unwrap();
    let mut filter = GaussianFilter::new(TARGET, ADD_REMOVE).unwrap();
    // 0.5, 0.25, 0.125 ... of mu^2, in both orders
    for halvings in 1..=20_i32 {
        let z = 2.0_f64.powf(f64::from(halvings) / 2.0) / budget * (1.0 + 1e-13);
        filter.spend(&DpEvent::gaussian(z)).unwrap();
    }
    let left = filter.remaining().mu;
    assert!((left / budget - 2.0_f64.powi(-10)).abs() < 1e-6);
    let before = filter;
    let error = filter.spend(&DpEvent::gaussian(1.0 / (left * 1.01)));
    assert!(matches!(
        error,
        Err(Error::BudgetSpent {
            measure: Measure::MuSquared,
            ..
        })
    ));
    assert_eq!(filter, before);
    filter.spend(&DpEvent::gaussian(1.01 / left)).unwrap();
    assert!(filter.spend(&DpEvent::laplace(1.0)).is_err());
    assert!(filter.spend(&DpEvent::NonPrivate).is_err());
}

#[test]
fn rdp_filter_of_one_order_counts_that_order_only() {
    let (order, delta) = (16.0, 1e-5_f64);
    let mut filter = RdpFilter::at_order(TARGET, ADD_REMOVE, order).unwrap();
    let balance = filter.balances()[0];
    // the conversion, solved for the divergence: 1 - ln(15/16) + ln(16e-5)/15
    let expected = 1.0 - (15.0_f64 / 16.0).ln() + (16.0 * delta).ln() / 15.0;
    assert!((balance.budget / expected - 1.0).abs() < 1e-12 && balance.budget < expected);
    // a Gaussian costs 8/z^2 at order 16
    let z = (8.0 / (0.499 * expected)).sqrt();
    filter.spend(&DpEvent::gaussian(z)).unwrap();
    filter.spend(&DpEvent::gaussian(z)).unwrap();
    let before = filter.clone();
    assert!(matches!(
        filter.spend(&DpEvent::gaussian(z)),
        Err(Error::BudgetSpent {
            measure: Measure::Rdp,
            ..
        })
    ));
    assert_eq!(filter, before);
}

#[test]
fn rdp_filter_over_orders_pays_delta_for_each() {
    let orders = [4.0, 16.0, 64.0];
    let filter = RdpFilter::over_orders(TARGET, ADD_REMOVE, &orders).unwrap();
    let third = ApproxDp {
        delta: TARGET.delta / 3.0,
        ..TARGET
    };
    for balance in filter.balances() {
        let alone = RdpFilter::at_order(third, ADD_REMOVE, balance.order).unwrap();
        assert!((balance.budget / alone.balances()[0].budget - 1.0).abs() < 1e-9);
    }
    // order 4 has no budget at this delta but its part of delta is reserved all the same
    assert_eq!(filter.balances().len(), 2);
    assert!(RdpFilter::at_order(TARGET, ADD_REMOVE, 4.0).is_err());
}

#[test]
fn rdp_filter_goes_on_while_some_order_has_budget() {
    let mut filter = RdpFilter::over_orders(TARGET, ADD_REMOVE, &[16.0, 64.0]).unwrap();
    let spend = |filter: &mut RdpFilter| {
        (0..100_000)
            .take_while(|_| filter.spend(&DpEvent::gaussian(40.0)).is_ok())
            .count()
    };
    let both = spend(&mut filter);
    let over = filter
        .balances()
        .iter()
        .filter(|b| b.spent > b.budget)
        .count();
    assert_eq!(over, 1, "one order is exhausted before the other");
    let half = ApproxDp {
        delta: TARGET.delta / 2.0,
        ..TARGET
    };
    let alone =
        [16.0, 64.0].map(|order| spend(&mut RdpFilter::at_order(half, ADD_REMOVE, order).unwrap()));
    assert_eq!(both, alone[0].max(alone[1]));
}

#[test]
fn a_planned_order_is_the_best_for_its_plan() {
    let schedule = [(DpEvent::gaussian(50.0), 100), (DpEvent::laplace(60.0), 20)];
    let runs = |mut filter: RdpFilter| {
        let step = DpEvent::composed(vec![
            DpEvent::gaussian(50.0).repeated(5),
            DpEvent::laplace(60.0),
        ]);
        (0..10_000)
            .take_while(|_| filter.spend(&step).is_ok())
            .count()
    };
    let planned = runs(RdpFilter::for_schedule(TARGET, ADD_REMOVE, &schedule).unwrap());
    for order in [12.0, 20.0, 30.0, 50.0, 100.0] {
        let other = runs(RdpFilter::at_order(TARGET, ADD_REMOVE, order).unwrap());
        assert!(
            other <= planned + planned / 50,
            "{order}: {other} > {planned}"
        );
    }
}

#[test]
fn what_cannot_be_filtered_is_refused() {
    for order in [1.0, 0.5, f64::NAN, f64::INFINITY, -3.0] {
        assert!(
            RdpFilter::at_order(TARGET, ADD_REMOVE, order).is_err(),
            "{order}"
        );
    }
    assert!(RdpFilter::over_orders(TARGET, ADD_REMOVE, &[]).is_err());
    for (epsilon, delta) in [(0.0, 0.1), (f64::NAN, 0.1), (1.0, 0.0), (1.0, 1.0)] {
        let target = ApproxDp { epsilon, delta };
        assert!(GaussianFilter::new(target, ADD_REMOVE).is_err());
        assert!(RdpFilter::at_order(target, ADD_REMOVE, 8.0).is_err());
        assert!(IndividualGaussianFilter::new(target, ADD_REMOVE, 1).is_err());
    }
    for mu in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-200, 1e200] {
        assert!(Odometer::new(1e-5, ADD_REMOVE, Gdp { mu }).is_err(), "{mu}");
    }
    let odometer = Odometer::new(1e-5, ADD_REMOVE, Gdp { mu: 1.0 }).unwrap();
    for growth in [1.0, 0.0, f64::NAN, f64::INFINITY] {
        assert!(odometer.with_growth(growth).is_err(), "{growth}");
    }
}

#[test]
fn odometer_reads_the_rung_above_at_its_part_of_delta() {
    let mut odometer = Odometer::new(1e-5, ADD_REMOVE, Gdp { mu: 0.5 }).unwrap();
    assert_eq!(odometer.reading().unwrap().epsilon.to_bits(), 0);
    odometer.compose(&DpEvent::gaussian(2.0), 1).unwrap();
    // mu^2 = 0.25 is rung 0 exactly
    let first = odometer.reading().unwrap();
    assert!((first.epsilon / gdp::epsilon(0.5, 1e-5 / 2.0) - 1.0).abs() < 1e-9);
    odometer.compose(&DpEvent::gaussian(1.0), 1).unwrap();
    // mu^2 = 1.25 lies below rung 3: 0.25 * 2^3
    let second = odometer.reading().unwrap();
    let expected = gdp::epsilon(2.0_f64.sqrt(), 1e-5 / 20.0);
    assert!((second.epsilon / expected - 1.0).abs() < 1e-9);
    // the plain running value would promise more than holds at a moment chosen by the outputs
    assert!(second.epsilon > gdp::epsilon(odometer.spent().mu, 1e-5));
    assert!(odometer.with_growth(4.0).is_err());
}

/// A Gaussian random walk whose analyst stops as soon as the loss exceeds the running epsilon at
/// the full delta. At the running mu this happens far more often than delta allows; at the
/// odometer's reading it does not.
#[test]
fn stopping_on_the_outputs_breaks_the_running_figure_and_not_the_odometer() {
    const N_STEPS: u32 = 400;
    const RUNS: u32 = 40_000;
    let delta = 0.05;
    let z = 12.0;
    let mut odometer = Odometer::new(delta, ADD_REMOVE, Gdp { mu: 0.1 }).unwrap();
    let (mut plain, mut read) = (Vec::new(), Vec::new());
    for _ in 0..N_STEPS {
        odometer.compose(&DpEvent::gaussian(z), 1).unwrap();
        plain.push(gdp::epsilon(odometer.spent().mu, delta));
        read.push(odometer.reading().unwrap().epsilon);
    }
    let mut random = Normals(0x9e37_79b9_7f4a_7c15);
    // delta of the stopped mechanism: E_P[(1 - e^(eps - L))+] where L is the loss at the stop
    let (mut with_plain, mut with_read) = (0.0, 0.0);
    for _ in 0..RUNS {
        let losses: Vec<f64> = (0..N_STEPS)
            .scan(0.0, |loss, _| {
                *loss += 0.5 / (z * z) + random.next() / z;
                Some(*loss)
            })
            .collect();
        let stopped = |reading: &[f64]| {
            let stop = losses.iter().zip(reading).position(|(l, e)| l - e > 0.3);
            let at = stop.unwrap_or(losses.len() - 1);
            (1.0 - (reading[at] - losses[at]).exp()).max(0.0)
        };
        with_plain += stopped(&plain);
        with_read += stopped(&read);
    }
    let runs = f64::from(RUNS);
    assert!(with_plain / runs > 1.3 * delta, "{}", with_plain / runs);
    assert!(with_read / runs < delta, "{}", with_read / runs);
}

/// Normal numbers from a fixed xorshift stream.
struct Normals(u64);

impl Normals {
    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    fn next(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

#[test]
fn every_unit_spends_its_own_account() {
    let mu = gdp::mu_for(TARGET).unwrap();
    let mut filter = IndividualGaussianFilter::new(TARGET, ADD_REMOVE, 3).unwrap();
    // a unit with a fraction f of the budget's mu takes part in 1/f^2 steps
    let costs = Private::new(vec![0.999 * mu, 0.4999 * mu, 0.0]);
    let steps: Vec<Vec<bool>> = (0..6)
        .map(|_| filter.admit_all(&costs).expose().clone())
        .collect();
    let times = |unit: usize| steps.iter().filter(|step| step[unit]).count();
    assert_eq!([times(0), times(1), times(2)], [1, 4, 6]);
    // a unit that is too expensive now may still take part at a lower cost
    assert!(*filter.admit(0_u32, 1e-3 * mu).expose());
    assert!(!*filter.admit(1_u64, 0.4 * mu).expose());
}

#[test]
fn under_replacement_a_unit_has_a_quarter() {
    let mu = gdp::mu_for(TARGET).unwrap();
    let mut filter = IndividualGaussianFilter::new(TARGET, REPLACE, 2).unwrap();
    let costs = Private::new(vec![0.501 * mu, 0.499 * mu]);
    assert_eq!(filter.admit_all(&costs).expose(), &[false, true]);
}

#[test]
fn hostile_costs_leave_the_unit_out_and_say_nothing() {
    let mut filter = IndividualGaussianFilter::new(TARGET, ADD_REMOVE, 5).unwrap();
    let costs = vec![f64::NAN, f64::INFINITY, -0.1, 1e300, 0.1, 0.1, 0.1];
    let admitted = filter.admit_all(&Private::new(costs));
    assert_eq!(admitted.expose(), &[false, false, false, false, true]);
    let fewer = filter.admit_all(&Private::new(vec![0.1]));
    assert_eq!(fewer.expose(), &[true, false, false, false, false]);
    assert!(!*filter.admit(5_usize, 0.1).expose());
    assert!(!*filter.admit(u64::MAX, 0.1).expose());
    assert!(!*filter.admit(-1_i32, 0.1).expose());
}

#[test]
fn accounts_of_a_million_small_steps_never_fall_behind() {
    let mut filter = IndividualGaussianFilter::new(TARGET, ADD_REMOVE, 1).unwrap();
    let budget = gdp::mu_for(TARGET).unwrap().powi(2);
    let mu = (budget / 1e6).sqrt();
    let steps = (0..1_100_000)
        .take_while(|_| *filter.admit(0_usize, mu).expose())
        .count();
    assert!((999_990..=1_000_000).contains(&steps), "{steps}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Everything that a filter accepts is within the target according to the accountant.
    #[test]
    fn admitted_gaussians_keep_the_target(
        epsilon in 0.01..20.0_f64,
        log_delta in -14.0..-0.5_f64,
        noise in prop::collection::vec(0.3..300.0_f64, 1..60),
        replace: bool,
    ) {
        let adjacency = if replace { REPLACE } else { ADD_REMOVE };
        let target = ApproxDp { epsilon, delta: 10.0_f64.powf(log_delta) };
        let mut filter = GaussianFilter::new(target, adjacency).unwrap();
        let mut accountant = dp_accounting::GdpAccountant::new(adjacency);
        for z in noise {
            let event = DpEvent::gaussian(z);
            if filter.spend(&event).is_ok() {
                accountant.compose(&event, 1).unwrap();
            }
        }
        prop_assert!(accountant.epsilon(target.delta) <= epsilon);
    }

    /// The exact epsilon of the Gaussians accepted by an RDP filter is within its target.
    #[test]
    fn rdp_filters_keep_the_target(
        epsilon in 0.05..20.0_f64,
        log_delta in -14.0..-2.0_f64,
        noise in prop::collection::vec(0.3..300.0_f64, 1..60),
        several: bool,
    ) {
        let target = ApproxDp { epsilon, delta: 10.0_f64.powf(log_delta) };
        let orders = [1.5, 3.0, 10.0, 30.0, 100.0, 1000.0];
        let made = if several {
            RdpFilter::over_orders(target, ADD_REMOVE, &orders)
        } else {
            RdpFilter::for_schedule(target, ADD_REMOVE, &[(DpEvent::gaussian(50.0), 9)])
        };
        let mut filter = made.unwrap();
        let mut accountant = dp_accounting::GdpAccountant::new(ADD_REMOVE);
        for z in noise {
            let event = DpEvent::gaussian(z);
            if filter.spend(&event).is_ok() {
                accountant.compose(&event, 1).unwrap();
            }
        }
        prop_assert!(accountant.epsilon(target.delta) <= epsilon);
    }

    /// A reading never decreases, and is never below the value of the same Gaussians as one plan.
    #[test]
    fn odometer_only_rises(
        first in 1e-3..3.0_f64,
        noise in prop::collection::vec(0.1..500.0_f64, 1..40),
    ) {
        let mut odometer = Odometer::new(1e-6, REPLACE, Gdp { mu: first }).unwrap();
        let mut last = 0.0;
        for z in noise {
            odometer.compose(&DpEvent::gaussian(z), 2).unwrap();
            let now = odometer.reading().unwrap().epsilon;
            prop_assert!(now >= last && now >= gdp::epsilon(odometer.spent().mu, 1e-6));
            last = now;
        }
    }
}
