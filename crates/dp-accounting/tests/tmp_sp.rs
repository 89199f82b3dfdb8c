use dp_accounting::*;
use dp_core::*;
use serde_json::Value;
#[test]
fn golden_sp() {
    let text = std::fs::read_to_string("/work/shared/golden/accounting.json").unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    for case in file["cases"].as_array().unwrap() {
        let kind = case["query"]["kind"].as_str().unwrap();
        if !(kind == "epsilon_at_delta" || kind == "delta_at_epsilon")
            || !case["query"]["formula"].is_null()
        {
            continue;
        }
        let rep = case["neighbour"] == "replace_one";
        let mut acc = SaddlePointAccountant::new(if rep {
            Adjacency::ReplaceRecord
        } else {
            Adjacency::AddRemoveRecord
        });
        let mut ok = true;
        for e in case["events"].as_array().unwrap() {
            let f = |k: &str| e[k].as_f64().unwrap();
            let ev = match e["mechanism"].as_str().unwrap() {
                "gaussian" => DpEvent::gaussian(f("sigma") / f("sensitivity")),
                "laplace" => DpEvent::laplace(f("scale") / f("sensitivity")),
                "discrete_laplace" => DpEvent::DiscreteLaplace {
                    rate: f("rate"),
                    sensitivity: f("sensitivity") as u32,
                },
                "poisson_subsampled_gaussian" => {
                    DpEvent::sampled_gaussian(f("sigma"), f("sampling_probability"))
                }
                "approximate_dp" => DpEvent::ApproxDp {
                    epsilon: f("epsilon"),
                    delta: f("delta"),
                    relation: Relation::AddRemove,
                },
                _ => {
                    ok = false;
                    break;
                }
            };
            acc.compose(&ev, e["count"].as_u64().unwrap()).unwrap();
        }
        if !ok {
            continue;
        }
        let t0 = std::time::Instant::now();
        let r = if kind == "epsilon_at_delta" {
            acc.epsilon(case["query"]["delta"].as_f64().unwrap())
        } else {
            acc.delta(case["query"]["epsilon"].as_f64().unwrap())
        };
        let dt = t0.elapsed().as_secs_f64();
        let truth = case["value"].as_f64().unwrap();
        match r {
            Ok(b) => println!(
                "{:28} {:+.2e} width {:.2e} sound {} {:.3}ms",
                case["id"].as_str().unwrap(),
                b.value / truth - 1.0,
                (b.upper - b.lower) / truth,
                b.upper >= truth * (1.0 - 1e-15) && b.lower <= truth * (1.0 + 1e-15),
                dt * 1e3
            ),
            Err(e) => println!(
                "{:28} ERR {e} {:.3}ms",
                case["id"].as_str().unwrap(),
                dt * 1e3
            ),
        }
    }
}
