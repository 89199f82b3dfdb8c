//! Old bits.
use dp_core::Adjacency;
use dp_mechanism::NoiseSource;
use dp_pubfeat::federated::{Aggregator, Client};
use dp_pubfeat::*;
use sha2::{Digest, Sha256};

use crate::support::*;

fn bits(values: &[f64]) -> String {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let hash = Sha256::digest(bytes);
    hash[..8].iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn golden() {
    let data = table(40, None);
    let seeded = || NoiseSource::insecure_seeded(21);
    for (setup, adjacency) in [
        (setup(), ADD_REMOVE),
        (setup(), Adjacency::ReplaceUser),
        (setup().example_level(), Adjacency::ReplaceRecord),
    ] {
        let mut params = SspParams::new(setup.clone());
        params.n_resamples = 3;
        let ssp = params.check().unwrap();
        let plan = ssp.plan(N_ITEMS, target(), adjacency).unwrap();
        let f = ssp
            .fit(ridge(), &data, &plan, pay(&plan), &mut seeded())
            .unwrap();
        println!("ssp {}", bits(&f.model.item_vectors().unwrap()));
        let residual = ResidualSspParams::new(setup.clone(), 3, 0.6, 0.2)
            .check()
            .unwrap();
        let plan = residual.plan(N_ITEMS, target(), adjacency).unwrap();
        let f = residual
            .fit(ridge(), &data, &plan, pay(&plan), &mut seeded())
            .unwrap();
        println!("residual {}", bits(&f.model.item_vectors().unwrap()));
        let convex = ConvexSspParams::new(setup.clone(), 3).check().unwrap();
        let plan = convex.plan(N_ITEMS, target(), adjacency).unwrap();
        let f = convex
            .fit(&Logistic, ridge(), &data, &plan, pay(&plan), &mut seeded())
            .unwrap();
        println!("convex {}", bits(&f.model.item_vectors().unwrap()));
        if setup.unit == ProtectedUnit::User {
            let am = am_ssp(setup.clone(), 3);
            let plan = am.plan(N_ITEMS, target(), adjacency).unwrap();
            let mut first = ridge();
            let ones = ItemStatistics::new(
                DIM,
                [1.0, 0., 0., 0., 1., 0., 0., 0., 1.].repeat(N_ITEMS),
                (0..N_ITEMS * DIM).map(|i| (i as f64).sin()).collect(),
                [0.1; 2],
            )
            .unwrap();
            first.learn(&ones).unwrap();
            let f = am
                .fit(first, &data, &plan, pay(&plan), &mut seeded())
                .unwrap();
            println!("am {}", bits(&f.model.item_vectors().unwrap()));
            let fit = crate::am_residual::rounds(3, 3);
            let prior = crate::am_residual::prior();
            let plan = fit.plan(N_ITEMS, target(), adjacency).unwrap();
            let f = fit
                .fit(&prior, &data, &plan, pay(&plan), &mut seeded())
                .unwrap();
            println!("am-residual {}", bits(f.model.item_vectors()));
            let mut params = AmImplicitSspParams::for_target(target());
            (params.dim, params.n_rounds) = (3, 3);
            let fit = params.check().unwrap();
            let plan = fit.plan(N_ITEMS, target(), adjacency).unwrap();
            let f = fit
                .fit(&prior, &data, &plan, pay(&plan), &mut seeded())
                .unwrap();
            println!("am-implicit {}", bits(f.model.item_vectors()));
        }
        let ssp = SspParams::new(setup.clone()).check().unwrap();
        let plan = ssp.plan(N_ITEMS, target(), adjacency).unwrap();
        let mut aggregator = Aggregator::new(&ssp, (N_ITEMS, 40), &plan, pay(&plan)).unwrap();
        for number in 0..40 {
            let client = Client::new(&data, number as usize, number).unwrap();
            let message = client.answer(aggregator.invitation()).unwrap();
            aggregator.receive(&message).unwrap();
        }
        let (message, _) = aggregator.close(&mut seeded()).unwrap();
        let mut learner = ridge();
        learner.learn(&message.statistics).unwrap();
        println!("federated {}", bits(&learner.item_vectors().unwrap()));
    }
}
