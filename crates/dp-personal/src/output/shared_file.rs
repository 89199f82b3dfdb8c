//! The shared part of the users' models on disk: one safetensors file whose header says how users join.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use dp_fedsgd::{Provenance, SharedModel};
use safetensors::tensor::{Dtype, TensorView};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::model_file::{HEADER_KEY, SchemaOnly, read_header, read_matrix};
use crate::error::{Error, Result};
use crate::federated::{RunSettings, alpha_of, alpha_value};
use crate::personal::Inputs;

pub(crate) const SHARED: &str = "shared.safetensors";
/// Schema 2 has the settings of the run, by which users join.
const SCHEMA_VERSION: u32 = 2;

/// What a reader needs besides the numbers. All of it is public.
#[derive(Serialize, Deserialize)]
struct Header {
    schema_version: u32,
    provenance: Provenance,
    alpha: Value,
    /// Rounds after which the rows of `trajectory` were released.
    rounds: Vec<usize>,
    settings: RunSettings,
    inputs: Inputs,
}

/// A released shared part, as its file has it.
pub(crate) struct ReleasedShared {
    pub(crate) provenance: Provenance,
    pub(crate) alpha: f64,
    pub(crate) settings: RunSettings,
    pub(crate) inputs: Inputs,
    /// After the last round.
    pub(crate) last: Vec<f64>,
    /// After some rounds, the last among them, one after the other.
    pub(crate) trajectory: Vec<f64>,
}

/// The bytes of the file: `shared`, f64, shape `(1, n)`, the last round's numbers, and `trajectory`, one row for each round that was kept.
pub(crate) fn shared_bytes(
    model: &SharedModel,
    alpha: f64,
    settings: &RunSettings,
    inputs: &Inputs,
) -> Result<Vec<u8>> {
    let header = Header {
        schema_version: SCHEMA_VERSION,
        provenance: model.provenance(),
        alpha: alpha_value(alpha),
        rounds: model.kept().iter().map(|kept| kept.round).collect(),
        settings: *settings,
        inputs: inputs.clone(),
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

/// Reads it back. Another schema is refused rather than guessed at.
pub(crate) fn read_shared(folder: &Path) -> Result<ReleasedShared> {
    let path = folder.join(SHARED);
    let bytes = fs::read(&path).map_err(|e| Error::read(&path, e))?;
    of_bytes(&bytes).map_err(|reason| Error::model(&path, reason))
}

fn of_bytes(bytes: &[u8]) -> std::result::Result<ReleasedShared, String> {
    let header = header_of(bytes)?;
    header.inputs.check()?;
    let alpha = alpha_of(&header.alpha).filter(|alpha| *alpha >= 0.0);
    let alpha = alpha.ok_or("alpha is not a number from 0")?;
    let settings = header.settings;
    settings.fit(alpha, 1.0).map_err(|e| e.to_string())?;
    let (dim, n_kept) = (header.inputs.dim(), header.rounds.len());
    let read = |name, rows: usize| {
        let expected = format!("`{name}`: {rows} times {dim} numbers in f64");
        read_matrix(bytes, name, |shape| shape == [rows, dim], &expected)
    };
    Ok(ReleasedShared {
        provenance: header.provenance,
        alpha,
        settings,
        last: read("shared", 1)?,
        trajectory: read("trajectory", n_kept)?,
        inputs: header.inputs,
    })
}

fn header_of(bytes: &[u8]) -> std::result::Result<Header, String> {
    let SchemaOnly { schema_version } = read_header(bytes, "dp federate", SCHEMA_VERSION)?;
    if schema_version < SCHEMA_VERSION {
        return Err(format!(
            "model schema {schema_version} does not say with which settings it was trained, \
             and nobody can join it; train it again, which costs its epsilon again"
        ));
    }
    read_header(bytes, "dp federate", SCHEMA_VERSION)
}

#[cfg(test)]
mod tests {
    use dp_fedsgd::{AdditiveLoss, AdditiveModel, HeldBatches, PpSgdParams};
    use rand::SeedableRng;

    use super::*;
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
        let settings = RunSettings {
            n_rounds: 4,
            learning_rate: 0.5,
            clip_norm: 9.0,
            shrink: None,
            batch_size: 1,
            sampling_probability: None,
        };
        let model = fitted.unwrap().shared;
        let bytes = shared_bytes(&model, f64::INFINITY, &settings, &inputs).unwrap();
        let read = of_bytes(&bytes).unwrap();
        assert_eq!(read.last, [0.9375]);
        assert_eq!(read.trajectory, [0.75, 0.9375]);
        assert!(read.alpha.is_infinite());
        assert_eq!((read.settings, read.inputs), (settings, inputs));
        assert_eq!(read.provenance, Provenance::NonPrivate);
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.contains(r#"\"alpha\":\"inf\""#));
        // a wrong alpha, and one more round than there are rows
        for (from, to) in [(r#"\"inf\""#, r#"\"ing\""#), ("[2,4]", "[244]")] {
            let at = bytes.windows(from.len()).position(|w| w == from.as_bytes());
            let mut bad = bytes.clone();
            bad[at.unwrap()..][..to.len()].copy_from_slice(to.as_bytes());
            assert!(of_bytes(&bad).is_err(), "{to}");
        }
        let older = [r#"\"further_\":"#, r#"version\":1"#];
        let newer = [r#"\"settings\":"#, r#"version\":2"#];
        let mut without = bytes;
        for (from, to) in newer.into_iter().zip(older) {
            let at = without.windows(from.len());
            let at = at.clone().position(|w| w == from.as_bytes()).unwrap();
            without[at..][..to.len()].copy_from_slice(to.as_bytes());
        }
        let said = of_bytes(&without).err().unwrap();
        assert!(said.contains("train it again"), "{said}");
    }
}
