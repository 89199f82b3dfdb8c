//! The shared part of the users' models on disk: one safetensors file whose header says how users join.

use std::collections::HashMap;
use std::path::Path;

use dp_fedsgd::{Provenance, SharedModel};
use safetensors::tensor::{Dtype, TensorView};
use serde::Serialize;
use serde_json::Value;

use super::model_file::HEADER_KEY;
use crate::error::{Error, Result};
use crate::personal::Inputs;

pub(crate) const SHARED: &str = "shared.safetensors";
const SCHEMA_VERSION: u32 = 1;

/// What a reader needs besides the numbers. All of it is public.
#[derive(Serialize)]
struct Header<'a> {
    schema_version: u32,
    provenance: Provenance,
    alpha: Value,
    /// Rounds after which the rows of `trajectory` were released.
    rounds: Vec<usize>,
    inputs: &'a Inputs,
}

/// The bytes of the file: `shared`, f64, shape `(1, n)`, the last round's numbers, and `trajectory`, one row for each round that was kept.
pub(crate) fn shared_bytes(model: &SharedModel, alpha: f64, inputs: &Inputs) -> Result<Vec<u8>> {
    let header = Header {
        schema_version: SCHEMA_VERSION,
        provenance: model.provenance(),
        alpha: crate::federated::alpha_value(alpha),
        rounds: model.kept().iter().map(|kept| kept.round).collect(),
        inputs,
    };
    let header = HashMap::from([(HEADER_KEY.to_owned(), serde_json::to_string(&header)?)]);
    let bytes =
        |values: &[f64]| -> Vec<u8> { values.iter().flat_map(|v| v.to_le_bytes()).collect() };
    let last = bytes(model.last());
    let kept: Vec<u8> = model.kept().iter().flat_map(|k| bytes(&k.shared)).collect();
    let n = model.last().len();
    let failed = |e| Error::model(Path::new(SHARED), e);
    let view = |rows: usize, bytes| TensorView::new(Dtype::F64, vec![rows, n], bytes);
    let tensors = [
        ("shared", view(1, &last).map_err(failed)?),
        (
            "trajectory",
            view(model.kept().len(), &kept).map_err(failed)?,
        ),
    ];
    safetensors::serialize(tensors, Some(header)).map_err(failed)
}

#[cfg(test)]
mod tests {
    use dp_fedsgd::{AdditiveLoss, AdditiveModel, HeldBatches, PpSgdParams};
    use rand::SeedableRng;

    use super::*;
    use crate::output::model_file::read_matrix;
    use crate::personal::{Column, Intercept, Task};

    #[test]
    fn the_file_holds_the_last_round_and_those_on_the_way() {
        let mut builder = dp_core::UserSamplesBuilder::new(1, 1).unwrap();
        builder.push(0, &[1.0], 1.0).unwrap();
        let samples = builder.build().0;
        let mut params = PpSgdParams::new(f64::INFINITY, 0.5, 9.0, 4, 1.0);
        params.keep_every = 2;
        let model = AdditiveModel::new(AdditiveLoss::Squared, 1).unwrap();
        let rows = HeldBatches::new(&samples, 1).unwrap();
        let rng = &mut rand_chacha::ChaCha20Rng::seed_from_u64(0);
        let fitted = params.check().unwrap().simulate(&model, &rows, 0.0, rng);
        let column = Column {
            name: "x".to_owned(),
            range: None,
        };
        let inputs = Inputs {
            target: column.clone(),
            features: vec![column],
            intercept: Intercept::None,
            task: Task::Regression,
            l2_penalties: vec![1.0],
            sparse: 0,
        };
        let bytes = shared_bytes(&fitted.unwrap().model, f64::INFINITY, &inputs).unwrap();
        let read = |name, rows| read_matrix(&bytes, name, |shape| shape == [rows, 1], "it");
        assert_eq!(read("shared", 1).unwrap(), [0.9375]);
        assert_eq!(read("trajectory", 2).unwrap(), [0.75, 0.9375]);
        assert!(String::from_utf8_lossy(&bytes).contains(r#"\"alpha\":\"inf\""#));
    }
}
