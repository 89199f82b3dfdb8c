#![allow(clippy::unwrap_used, reason = "dev")]
use super::*;
use crate::loss::{FiniteLoss, MixtureLoss, Side};
#[test]
fn dev_reference() {
    let Ok(text) = std::fs::read_to_string("/tmp/rdp_ref.txt") else {
        return;
    };
    let mut worst: std::collections::BTreeMap<String, (f64, String)> = Default::default();
    for line in text.lines() {
        let mut it = line.split_whitespace();
        let kind = it.next().unwrap().to_string();
        let v: Vec<f64> = it.map(|x| x.parse().unwrap()).collect();
        let side = |x: f64| {
            if x == 0.0 {
                Side::Remove
            } else if x == 1.0 {
                Side::Add
            } else {
                Side::Replace
            }
        };
        let n = v.len();
        let (s, expect) = (v[n - 2], v[n - 1]);
        let loss = match kind.as_str() {
            "laplace" => Loss::Laplace { epsilon: v[0] },
            "br" => Loss::BoundedRange { epsilon: v[0] },
            "dg" => Loss::DiscreteGaussian {
                sigma: v[0],
                sensitivity: v[1] as u64,
            },
            "dl" => Loss::Finite(FiniteLoss::discrete_laplace(v[0], v[1] as u64)),
            "rr" => Loss::Finite(FiniteLoss::randomized_response(v[0], v[1])),
            "adp" => Loss::Finite(FiniteLoss::approx_dp(v[0], v[1])),
            "sadp" => Loss::Finite(FiniteLoss::sampled_approx_dp(v[0], v[1], v[2], side(v[3]))),
            "sgm" => Loss::Mixture(MixtureLoss {
                sigma: v[0],
                shifts: vec![0.0, 1.0],
                weights: vec![1.0 - v[1], v[1]],
                side: side(v[2]),
            }),
            "mix" => Loss::Mixture(MixtureLoss {
                sigma: v[0],
                shifts: vec![0.0, 1.0, 2.5],
                weights: vec![0.7, 0.2, 0.1],
                side: side(v[1]),
            }),
            "sl" => Loss::SampledLaplace {
                epsilon: v[0],
                q: v[1],
                side: side(v[2]),
            },
            "wor" => Loss::WithoutReplacement { mu: v[0], q: v[1] },
            _ => panic!("{kind}"),
        };
        let t = std::time::Instant::now();
        let found = loss.log_moment(s);
        let t = t.elapsed().as_secs_f64();
        let err = (found.log / expect - 1.0).abs();
        if err > 1e-11 || t > 3e-3 || !found.exact {
            println!("{line} found {found:?} err {err:e} t {t:e}");
        }
        let w = worst.entry(kind).or_default();
        if !(err <= w.0) {
            *w = (err, line.to_string());
        }
    }
    println!("{worst:#?}");
}
