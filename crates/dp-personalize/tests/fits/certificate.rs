//! What a run states about itself.

use dp_mechanism::NoiseSource;
use dp_personalize::{AltMinParams, Initialisation, Provenance, ResidualAltMinParams, Trainer};

use crate::support::{ADJACENCIES, DIM, alt_min, made, pay, target};

#[test]
fn the_certificate_states_the_plan_and_not_more() {
    let data = made(50, 0.0);
    let fit = ResidualAltMinParams::new(2).check().unwrap();
    for adjacency in ADJACENCIES {
        let plan = fit.plan(DIM, target(1.0), adjacency).unwrap();
        assert!(plan.guarantee().epsilon <= 1.0 && plan.guarantee().epsilon > 0.999);
        let fitted = fit
            .fit(
                &data.samples,
                &plan,
                pay(&plan, 1),
                &mut NoiseSource::operating_system(),
            )
            .unwrap();
        assert!(fitted.certificate.verify().unwrap().is_private());
        assert_eq!(fitted.model.provenance(), Provenance::Private);
    }
}

/// A start from a run with seeded noise, refined with the operating system's.
#[test]
fn a_start_without_a_guarantee_taints_the_result() {
    let data = made(60, 0.0);
    let plain = AltMinParams::section_6(2);
    let start = alt_min(plain.clone(), &data.samples, target(5.0), ADJACENCIES[0]).unwrap();
    assert_eq!(start.model.provenance(), Provenance::SeededNoise);
    let again = AltMinParams {
        init: Initialisation::Given(start.model),
        ..plain
    };
    let fit = again.check().unwrap();
    let plan = fit.plan(DIM, target(5.0), ADJACENCIES[0]).unwrap();
    let noise = &mut NoiseSource::operating_system();
    let fitted = fit.fit(&data.samples, &plan, pay(&plan, 1), noise).unwrap();
    assert_eq!(fitted.model.provenance(), Provenance::SeededNoise);
    assert!(!fitted.certificate.verify().unwrap().is_private());
}
