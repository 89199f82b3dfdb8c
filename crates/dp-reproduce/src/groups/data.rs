//! Data files and the public ranges of their columns.

use dp_data::{SampleColumns, SampleTable, read_samples};

use super::super::ReproduceArgs;
use super::super::data_file::data_file;
use dp_personal::error::Result;
use dp_personal::personal::{Column, Inputs, Intercept, Task};

const FILES: [&str; 2] = ["data.csv.gz", "data.csv"];

/// A data set whose users are groups.
pub(in super::super) struct DataSet {
    pub(in super::super) folder: &'static str,
    target: (&'static str, [f64; 2]),
    /// Columns and the ranges that follow from their meaning.
    features: &'static [(&'static str, [f64; 2])],
    /// The threshold that divides the target into two classes.
    pub(super) threshold: Option<f64>,
}

const YES_NO: [f64; 2] = [0.0, 1.0];
const PERCENT: [f64; 2] = [0.0, 100.0];

/// Pupils' examination scores by school: codes, and two percentages of the school. The constant `x27` is left out.
pub(in super::super) const SCHOOL: DataSet = DataSet {
    folder: "school",
    target: ("target", [0.0, 70.0]),
    features: &[
        ("x0", YES_NO),
        ("x1", YES_NO),
        ("x2", YES_NO),
        ("x3", PERCENT),
        ("x4", PERCENT),
        ("x5", YES_NO),
        ("x6", YES_NO),
        ("x7", YES_NO),
        ("x8", YES_NO),
        ("x9", YES_NO),
        ("x10", YES_NO),
        ("x11", YES_NO),
        ("x12", YES_NO),
        ("x13", YES_NO),
        ("x14", YES_NO),
        ("x15", YES_NO),
        ("x16", YES_NO),
        ("x17", YES_NO),
        ("x18", YES_NO),
        ("x19", YES_NO),
        ("x20", YES_NO),
        ("x21", YES_NO),
        ("x22", YES_NO),
        ("x23", YES_NO),
        ("x24", YES_NO),
        ("x25", YES_NO),
        ("x26", YES_NO),
    ],
    threshold: Some(20.0),
};

/// Recordings by patient: the total score of the disease scale, whose maximum is 176, predicted
/// from day, age, sex and sixteen voice measures, with ranges that are usual for such measures.
pub(in super::super) const PARKINSONS: DataSet = DataSet {
    folder: "parkinsons",
    target: ("total_UPDRS", [0.0, 176.0]),
    features: &[
        ("age", [30.0, 90.0]),
        ("sex", YES_NO),
        ("test_time", [0.0, 200.0]),
        ("Jitter(%)", [0.0, 0.02]),
        ("Jitter(Abs)", [0.0, 0.0002]),
        ("Jitter:RAP", [0.0, 0.01]),
        ("Jitter:PPQ5", [0.0, 0.01]),
        ("Jitter:DDP", [0.0, 0.03]),
        ("Shimmer", [0.0, 0.1]),
        ("Shimmer(dB)", [0.0, 1.0]),
        ("Shimmer:APQ3", [0.0, 0.05]),
        ("Shimmer:APQ5", [0.0, 0.05]),
        ("Shimmer:APQ11", [0.0, 0.1]),
        ("Shimmer:DDA", [0.0, 0.2]),
        ("NHR", [0.0, 0.2]),
        ("HNR", [0.0, 40.0]),
        ("RPDE", [0.0, 1.0]),
        ("DFA", [0.5, 1.0]),
        ("PPE", [0.0, 1.0]),
    ],
    threshold: None,
};

impl DataSet {
    /// Model inputs for predicting the score itself or the side of the threshold.
    pub(in super::super) fn inputs(&self, task: Task, l2_penalties: Vec<f64>) -> Inputs {
        let column = |(name, range): (&str, [f64; 2])| Column {
            name: name.to_owned(),
            range: Some(range),
        };
        Inputs {
            target: column(self.target),
            features: self.features.iter().copied().map(column).collect(),
            intercept: match task {
                Task::Regression => Intercept::Own,
                Task::Classification { .. } => Intercept::Shared,
            },
            task,
            l2_penalties,
            sparse: 0,
        }
    }

    /// Whether the file exists.
    pub(in super::super) fn is_there(&self, args: &ReproduceArgs) -> bool {
        let folder = std::ffi::OsStr::new(self.folder);
        data_file(args, self.folder, &FILES).is_ok_and(|path| {
            // a file of the same name in another folder is another data set
            path.parent().and_then(std::path::Path::file_name) == Some(folder)
        })
    }

    pub(in super::super) fn read(&self, args: &ReproduceArgs) -> Result<SampleTable> {
        let names = self.features.iter().map(|(name, _)| (*name).to_owned());
        let columns = SampleColumns {
            user: Some("user".to_owned()),
            target: Some(self.target.0.to_owned()),
            features: Some(names.collect()),
            ..SampleColumns::default()
        };
        let path = data_file(args, self.folder, &FILES)?;
        Ok(read_samples(path, &columns)?)
    }
}
