//! Models on disk, as safetensors: factors with their catalogue as csv, a shared subspace, shared
//! parameters.

use std::fs;
use std::path::Path;

use dp_data::ItemCatalogue;
use dp_fedsgd::SharedModel;
use dp_mechanism::Provenance;
use dp_multitask::{FactorModel, ScoreModel, Scoring};
use dp_personalize::{ModelPrior, Subspace, UserPrior};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ItemVectors, expected_run};
use crate::error::{Error, Result};
use crate::federated::{RunSettings, alpha_of, alpha_value};
use crate::personal::Inputs;

pub(crate) const FACTORS: &str = "item_factors.safetensors";
pub(crate) const ITEMS: &str = "items.csv";
pub(crate) const CERTIFICATE: &str = "certificate.json";

/// The files of a model.
pub(crate) const MODEL_FILES: [&str; 2] = [FACTORS, ITEMS];

/// Name of the first tensor, shape `(n_items, dim)`, f64, rows in the order of `items.csv`.
const FACTORS_TENSOR: &str = "item_factors";
/// Name of a second tensor of the same shape, if standard errors are known. Earlier versions of the
/// program ignore it and give the same ranking.
const ERRORS_TENSOR: &str = "standard_errors";
/// Name of a tensor of shape `(1, dim)`, if the model has a typical user.
const TYPICAL_TENSOR: &str = "typical_user";
/// Key of the header entry that holds [`FactorHeader`] as JSON.
const HEADER_KEY: &str = "dp_personal";
/// Schema 2 has more scoring fields, for implicit feedback. Schema 3 has scores without biases.
/// Schema 4 leaves penalties to the users. Schema 5 has global effects. Schema 6 has a typical
/// user. Models of ratings with penalties still use schema 1.
const FACTORS_SCHEMA: u32 = 6;

/// What a reader needs in addition to the factors. All of it is public.
#[derive(Serialize, Deserialize)]
struct FactorHeader {
    schema_version: u32,
    provenance: Provenance,
    scoring: Scoring,
}

/// The part of a header that every version has.
#[derive(Deserialize)]
struct SchemaOnly {
    schema_version: u32,
}

/// The files of a model: name and bytes of factors and catalogue.
pub(crate) fn model_files(
    model: &FactorModel,
    catalogue: &ItemCatalogue,
) -> Result<[(&'static str, Vec<u8>); 2]> {
    let header = FactorHeader {
        schema_version: match model.scoring() {
            _ if model.typical_user().is_some() => FACTORS_SCHEMA,
            of if of.n_effects > 0 => 5,
            of if of.penalties.is_none() => 4,
            of if of.score_model == ScoreModel::Plain => 3,
            of if of.unobserved_weight.is_some() => 2,
            _ => 1,
        },
        provenance: model.provenance(),
        scoring: *model.scoring(),
    };
    let shape = [model.n_items(), model.scoring().dim];
    let mut tensors = vec![(FACTORS_TENSOR, shape, model.item_factors().to_vec())];
    if let Some(errors) = model.standard_errors() {
        tensors.push((ERRORS_TENSOR, shape, errors.to_vec()));
    }
    if let Some(factor) = model.typical_user() {
        tensors.push((TYPICAL_TENSOR, [1, shape[1]], factor.to_vec()));
    }
    let file = file_of(FACTORS, &header, &tensors)?;
    Ok([(FACTORS, file), (ITEMS, catalogue_csv(catalogue)?)])
}

/// A file of these matrices by rows, with `header` as the project's entry.
fn file_of(
    name: &str,
    header: &impl Serialize,
    matrices: &[(&str, [usize; 2], Vec<f64>)],
) -> Result<Vec<u8>> {
    let header = [(HEADER_KEY.to_owned(), serde_json::to_string(header)?)];
    let failed = |e| Error::model(Path::new(name), e);
    let bytes = matrices.iter().map(|(name, shape, values)| {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        (*name, *shape, bytes)
    });
    let bytes: Vec<_> = bytes.collect();
    let views = bytes.iter().map(|(name, shape, bytes)| {
        let view = TensorView::new(Dtype::F64, shape.to_vec(), bytes);
        Ok((*name, view.map_err(failed)?))
    });
    let views = views.collect::<Result<Vec<_>>>()?;
    safetensors::serialize(views, Some(header.into_iter().collect())).map_err(failed)
}

/// Hash of the ids of a catalogue and their order.
pub(crate) fn catalogue_sha256(catalogue: &ItemCatalogue) -> Result<String> {
    Ok(dp_accounting::sha256_hex(&serde_json::to_vec(
        catalogue.ids(),
    )?))
}

fn catalogue_csv(catalogue: &ItemCatalogue) -> Result<Vec<u8>> {
    let write = || {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(["item", "title"])?;
        for (index, id) in catalogue.ids().iter().enumerate() {
            writer.write_record([id, catalogue.title(index).unwrap_or("")])?;
        }
        writer.into_inner().map_err(|e| e.into_error().into())
    };
    write().map_err(|e: csv::Error| Error::model(Path::new(ITEMS), e))
}

/// Reads a model folder. A newer schema is refused.
pub(crate) fn read_model(folder: &Path) -> Result<(FactorModel, ItemCatalogue)> {
    let path = folder.join(FACTORS);
    if !path.exists() {
        return Err(without_factors(folder));
    }
    let bytes = fs::read(&path).map_err(|e| Error::read(&path, e))?;
    let header: FactorHeader = read_header(&bytes, "dp train", FACTORS_SCHEMA)
        .map_err(|reason| Error::model(&path, reason))?;
    let dim = header.scoring.dim;
    let is_shape = |shape: &[usize]| matches!(shape, &[_, d] if d == dim);
    let expected = format!("f64 factors of length {dim}");
    let factors = read_matrix(&bytes, FACTORS_TENSOR, is_shape, &expected)
        .map_err(|reason| Error::model(&path, reason))?;
    let mut model = FactorModel::new(header.scoring, factors, header.provenance)
        .map_err(|e| Error::model(&path, e))?;
    if has_tensor(&bytes, ERRORS_TENSOR).map_err(|reason| Error::model(&path, reason))? {
        let expected = format!("f64 standard errors of length {dim}");
        let errors = read_matrix(&bytes, ERRORS_TENSOR, is_shape, &expected)
            .map_err(|reason| Error::model(&path, reason))?;
        model = model
            .with_standard_errors(errors)
            .map_err(|e| Error::model(&path, e))?;
    }
    if has_tensor(&bytes, TYPICAL_TENSOR).map_err(|reason| Error::model(&path, reason))? {
        let expected = format!("an f64 factor of length {dim}");
        let is_one = |shape: &[usize]| shape == [1, dim];
        let factor = read_matrix(&bytes, TYPICAL_TENSOR, is_one, &expected)
            .map_err(|reason| Error::model(&path, reason))?;
        model = model
            .with_typical_user(factor)
            .map_err(|e| Error::model(&path, e))?;
    }
    let catalogue = dp_data::read_catalogue(folder.join(ITEMS))?;
    if catalogue.len() != model.n_items() {
        let (items, rows) = (catalogue.len(), model.n_items());
        let reason = format!("{rows} rows of factors for {items} items in {ITEMS}");
        return Err(Error::model(&path, reason));
    }
    Ok((model, catalogue))
}

/// The error for a folder that contains another kind of model, or none.
fn without_factors(folder: &Path) -> Error {
    let holds = |name: &str| folder.join(name).exists();
    let reason = if holds(SUBSPACE) || holds(SHARED) {
        "holds linear models of users and no item factors: dp predict fits and uses them".to_owned()
    } else {
        format!(
            "holds no {FACTORS}, which dp train, dp tune and dp nightly write; {}",
            expected_run(folder)
        )
    };
    Error::model(folder, reason)
}

/// The project's entry in the header of a safetensors file, with a schema of at most `newest`;
/// `command` wrote it.
fn read_header<T: DeserializeOwned>(bytes: &[u8], command: &str, newest: u32) -> Result<T, String> {
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(not_safetensors)?;
    let text = metadata
        .metadata()
        .as_ref()
        .and_then(|entries| entries.get(HEADER_KEY))
        .ok_or_else(|| format!("not a model of {command}: the header has no dp_personal entry"))?;
    let bad = |e: serde_json::Error| format!("the dp_personal entry of the header is damaged: {e}");
    let SchemaOnly {
        schema_version: found,
    } = serde_json::from_str(text).map_err(bad)?;
    if found > newest {
        return Err(format!(
            "model schema {found} is newer than this program, which reads {newest}; \
             use a newer dp"
        ));
    }
    serde_json::from_str(text).map_err(bad)
}

/// What the header of a model says of its noise, if that gives no privacy; none for other files.
pub(crate) fn without_privacy(bytes: &[u8]) -> Option<&'static str> {
    #[derive(Deserialize)]
    struct Header {
        provenance: Provenance,
    }
    let header: Header = read_header(bytes, "dp", u32::MAX).ok()?;
    match header.provenance {
        Provenance::SeededNoise => Some("that its noise was seeded"),
        Provenance::NonPrivate => Some("that it has no noise"),
        Provenance::Private | Provenance::NotTrained => None,
    }
}

fn has_tensor(bytes: &[u8], name: &str) -> Result<bool, String> {
    let tensors = SafeTensors::deserialize(bytes).map_err(not_safetensors)?;
    Ok(tensors.names().contains(&name))
}

/// The numbers of a two-dimensional tensor, all finite; `expected` describes what it should be.
fn read_matrix(
    bytes: &[u8],
    name: &str,
    is_shape: impl Fn(&[usize]) -> bool,
    expected: &str,
) -> Result<Vec<f64>, String> {
    let tensors = SafeTensors::deserialize(bytes).map_err(not_safetensors)?;
    let tensor = tensors.tensor(name).map_err(not_safetensors)?;
    if tensor.dtype() != Dtype::F64 || !is_shape(tensor.shape()) {
        return Err(format!("expected {expected}"));
    }
    let (values, _) = tensor.data().as_chunks::<8>();
    let values: Vec<f64> = values.iter().map(|&b| f64::from_le_bytes(b)).collect();
    if values.iter().all(|v| v.is_finite()) {
        Ok(values)
    } else {
        Err("its numbers are not all finite".to_owned())
    }
}

fn not_safetensors(error: safetensors::SafeTensorError) -> String {
    format!("not a whole safetensors file: {error}")
}

pub(crate) const SUBSPACE: &str = "subspace.safetensors";

/// Name of the one tensor, shape `(dim, rank)`, f64, an orthonormal basis.
const BASIS: &str = "basis";
/// Schema 2 leaves the regularisation of personal fits to the users. Schema 3 has a prior of
/// these fits, and schema 4 one that knows parts of the subspace and the spread of each feature.
const SUBSPACE_SCHEMA: u32 = 4;

/// What a reader needs in addition to the basis. All of it is public.
#[derive(Serialize, Deserialize)]
struct SubspaceHeader {
    schema_version: u32,
    provenance: Provenance,
    rank: usize,
    inputs: Inputs,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user_prior: Option<UserPrior>,
}

/// The bytes of the file.
pub(crate) fn subspace_bytes(subspace: &Subspace, inputs: &Inputs) -> Result<Vec<u8>> {
    let header = SubspaceHeader {
        schema_version: match (inputs.users_weigh(), subspace.user_prior()) {
            (true, Some(_)) => SUBSPACE_SCHEMA,
            (true, None) => 2,
            (false, _) => 1,
        },
        provenance: subspace.provenance(),
        rank: subspace.rank(),
        inputs: inputs.clone(),
        user_prior: subspace.user_prior().cloned(),
    };
    let shape = [subspace.dim(), subspace.rank()];
    let tensors = [(BASIS, shape, subspace.basis().to_vec())];
    file_of(SUBSPACE, &header, &tensors)
}

/// Reads the file. A newer schema is refused.
pub(crate) fn read_subspace(folder: &Path) -> Result<(Subspace, Inputs)> {
    let path = folder.join(SUBSPACE);
    let bytes = fs::read(&path).map_err(|e| Error::read(&path, e))?;
    let read = || {
        let header: SubspaceHeader = read_header(&bytes, "dp personalize", SUBSPACE_SCHEMA)?;
        header.inputs.check()?;
        let (dim, rank) = (header.inputs.dim(), header.rank);
        let expected = format!("an f64 basis of {rank} vectors of length {dim}");
        let basis = read_matrix(&bytes, BASIS, |shape| shape == [dim, rank], &expected)?;
        let subspace = Subspace::spanned_by(dim, rank, &basis, header.provenance)
            .map_err(|e| e.to_string())?;
        let has_prior = header.schema_version > 2 && header.inputs.has_prior();
        if header.user_prior.is_some() != has_prior {
            return Err("a prior of users' own fits is missing, or has no place here".to_owned());
        }
        if let Some(prior) = header.user_prior.as_ref().filter(|of| !of.is_of(&subspace)) {
            let n = prior.kinds().len();
            return Err(format!(
                "a prior of users' own fits with {n} kinds is not of this subspace, or has spreads of other features"
            ));
        }
        Ok((subspace.with_user_prior(header.user_prior), header.inputs))
    };
    read().map_err(|reason: String| Error::model(&path, reason))
}

pub(crate) const SHARED: &str = "shared.safetensors";
/// Schema 2 has the settings of the run, which users need to join. Schema 3 leaves the
/// regularisation of personal fits to the users. Schema 4 has a prior of these fits.
const SHARED_SCHEMA: u32 = 4;
const OLDEST_SHARED_SCHEMA: u32 = 2;

/// What a reader needs in addition to the numbers. All of it is public.
#[derive(Serialize, Deserialize)]
struct SharedHeader {
    schema_version: u32,
    provenance: Provenance,
    alpha: Value,
    /// Rounds after which the rows of `trajectory` were released.
    rounds: Vec<usize>,
    settings: RunSettings,
    inputs: Inputs,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model_prior: Option<ModelPrior>,
}

/// A released shared part, as stored in its file.
pub(crate) struct ReleasedShared {
    pub(crate) provenance: Provenance,
    pub(crate) alpha: f64,
    pub(crate) settings: RunSettings,
    pub(crate) inputs: Inputs,
    pub(crate) prior: Option<ModelPrior>,
    /// Parameters after the last round.
    pub(crate) last: Vec<f64>,
    /// Parameters after several rounds, including the last, concatenated.
    pub(crate) trajectory: Vec<f64>,
}

/// The bytes of the file: `shared`, f64, shape `(1, n)`, the parameters of the last round, and
/// `trajectory`, one row for each stored round.
pub(crate) fn shared_bytes(
    model: &SharedModel,
    (alpha, prior): (f64, Option<&ModelPrior>),
    settings: &RunSettings,
    inputs: &Inputs,
) -> Result<Vec<u8>> {
    let header = SharedHeader {
        schema_version: match (inputs.users_weigh(), prior) {
            (true, Some(_)) => SHARED_SCHEMA,
            (true, None) => 3,
            (false, _) => OLDEST_SHARED_SCHEMA,
        },
        provenance: model.provenance(),
        alpha: alpha_value(alpha),
        rounds: model.kept().iter().map(|kept| kept.round).collect(),
        settings: *settings,
        inputs: inputs.clone(),
        model_prior: prior.cloned(),
    };
    let (last, kept) = (model.last(), model.kept());
    let trajectory: Vec<f64> = kept.iter().flat_map(|k| k.shared.clone()).collect();
    let tensors = [
        ("shared", [1, last.len()], last.to_vec()),
        ("trajectory", [kept.len(), last.len()], trajectory),
    ];
    file_of(SHARED, &header, &tensors)
}

/// Reads the file. Any other schema is refused.
pub(crate) fn read_shared(folder: &Path) -> Result<ReleasedShared> {
    let path = folder.join(SHARED);
    let bytes = fs::read(&path).map_err(|e| Error::read(&path, e))?;
    of_bytes(&bytes).map_err(|reason| Error::model(&path, reason))
}

fn of_bytes(bytes: &[u8]) -> std::result::Result<ReleasedShared, String> {
    let header = header_of(bytes)?;
    header.inputs.check()?;
    let alpha = alpha_of(&header.alpha).filter(|alpha| *alpha >= 0.0);
    let alpha = alpha.ok_or("alpha is not a number, 0 or above")?;
    let settings = header.settings;
    settings.fit(alpha, 1.0).map_err(|e| e.to_string())?;
    let has_prior = header.schema_version == SHARED_SCHEMA;
    if header.model_prior.is_some() != has_prior {
        return Err("a prior of users' own fits is missing, or has no place here".to_owned());
    }
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
        prior: header.model_prior,
        inputs: header.inputs,
    })
}

fn header_of(bytes: &[u8]) -> std::result::Result<SharedHeader, String> {
    let SchemaOnly { schema_version } = read_header(bytes, "dp federate", SHARED_SCHEMA)?;
    if schema_version < OLDEST_SHARED_SCHEMA {
        return Err(format!(
            "model schema {schema_version} does not say with which settings it was trained, \
             and nobody can join it; train it again, which costs its epsilon again"
        ));
    }
    read_header(bytes, "dp federate", SHARED_SCHEMA)
}

pub(crate) const ITEM_VECTORS: &str = "item_vectors.safetensors";
const ITEM_VECTORS_SCHEMA: u32 = 1;

/// What a reader needs in addition to the numbers. All of it is public.
#[derive(Serialize)]
struct ItemVectorsHeader {
    schema_version: u32,
    provenance: Provenance,
    /// Bound to which users' vectors were shortened.
    vector_norm: f64,
    /// Standard deviations of the noise on a diagonal entry of a matrix, and on an entry of a
    /// right-hand side.
    noise_stddevs: [f64; 2],
}

/// The files of item vectors and the noisy statistics from which they were learned: name and bytes.
/// Tensors in f64, rows in the order of `items.csv`: `item_vectors`, `standard_errors` and
/// `right_hand_sides`, shape `(n_items, dim)`, and `matrices`, shape `(n_items, dim * dim)`.
pub(crate) fn item_vectors_files(
    model: &ItemVectors,
    (vector_norm, provenance): (f64, Provenance),
    catalogue: &ItemCatalogue,
) -> Result<[(&'static str, Vec<u8>); 2]> {
    let statistics = &model.statistics;
    let header = ItemVectorsHeader {
        schema_version: ITEM_VECTORS_SCHEMA,
        provenance,
        vector_norm,
        noise_stddevs: statistics.noise_stddevs(),
    };
    let (n_items, dim) = (catalogue.len(), statistics.dim());
    let of_items = 0..n_items;
    let matrices = of_items.clone().flat_map(|item| statistics.matrix(item));
    let rhs = of_items.flat_map(|item| statistics.rhs(item));
    let tensors = [
        ("item_vectors", [n_items, dim], model.vectors.clone()),
        (ERRORS_TENSOR, [n_items, dim], model.errors.clone()),
        (
            "matrices",
            [n_items, dim * dim],
            matrices.copied().collect(),
        ),
        ("right_hand_sides", [n_items, dim], rhs.copied().collect()),
    ];
    let file = file_of(ITEM_VECTORS, &header, &tensors)?;
    Ok([(ITEM_VECTORS, file), (ITEMS, catalogue_csv(catalogue)?)])
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
        let rng = &mut chacha20::ChaCha20Rng::seed_from_u64(0);
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
        let weighing = Inputs {
            l2_penalties: Vec::new(),
            ..inputs.clone()
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
        let bytes = shared_bytes(&model, (f64::INFINITY, None), &settings, &inputs).unwrap();
        let read = of_bytes(&bytes).unwrap();
        assert_eq!(read.last, [0.9375]);
        assert_eq!(read.trajectory, [0.75, 0.9375]);
        assert!(read.alpha.is_infinite());
        assert_eq!((read.settings, &read.inputs), (settings, &inputs));
        assert_eq!(read.provenance, Provenance::NonPrivate);
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.contains(r#"\"alpha\":\"inf\""#));
        // a wrong alpha, and a round more than there are rows
        for (from, to) in [(r#"\"inf\""#, r#"\"ing\""#), ("[2,4]", "[244]")] {
            let at = bytes.windows(from.len()).position(|w| w == from.as_bytes());
            let mut bad = bytes.clone();
            bad[at.unwrap()..][..to.len()].copy_from_slice(to.as_bytes());
            assert!(of_bytes(&bad).is_err(), "{to}");
        }
        // a prior of personal fits comes with its schema, and only with it
        let fit = inputs.weighed_fit().unwrap();
        let prior = dp_personalize::ModelVotes {
            fit,
            models: &[model.last()],
        };
        let prior = prior.non_private(&samples);
        let with = shared_bytes(&model, (1.0, Some(&prior)), &settings, &weighing).unwrap();
        let read = of_bytes(&with).unwrap();
        assert_eq!(read.prior, Some(prior));
        let mut bad = with;
        let schema = br#"schema_version\":4"#;
        let at = bad.windows(schema.len()).position(|w| w == schema).unwrap();
        bad[at + schema.len() - 1] = b'3';
        assert!(of_bytes(&bad).err().unwrap().contains("has no place here"));
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
