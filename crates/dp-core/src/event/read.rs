//! Events as they are read: one visitor for the members of all variants. A derived one for each
//! variant was a tenth of the code that dp-accounting generates.

use serde::de::IntoDeserializer;
use serde::{Deserialize, Deserializer};

use super::{DpEvent, Relation, ReplaceFactor, Stopping};

/// An enum whose variant is named by one member, read as a struct with the members of all variants.
macro_rules! tagged {
    (
        $of:ident as $members:ident by $tag:ident: $kind:ident,
        $($name:ident: $type:ty,)+;
        $($variant:ident { $($member:ident),* },)+
    ) => {
        #[derive(Clone, Copy, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        enum $kind {
            $($variant,)+
        }

        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(super) struct $members {
            #[serde(deserialize_with = "named")]
            $tag: $kind,
            $(#[serde(default, deserialize_with = "given")] $name: Option<$type>,)+
        }

        impl TryFrom<$members> for $of {
            type Error = String;

            fn try_from(mut read: $members) -> Result<Self, String> {
                let made = match read.$tag {
                    $($kind::$variant => Self::$variant {
                        $($member: taken(&mut read.$member, stringify!($member))?,)*
                    },)+
                };
                $(if read.$name.is_some() {
                    return Err(superfluous(stringify!($name), stringify!($tag)));
                })+
                Ok(made)
            }
        }

        // a new variant must not compile until it can be read
        const _: fn(&$of) = |written| match written {
            $($of::$variant { .. })|+ => {}
        };
    };
}

tagged! {
    DpEvent as Members by mechanism: Mechanism,
    noise_multiplier: f64,
    replace_factor: ReplaceFactor,
    sigma: f64,
    sensitivity: u32,
    rate: f64,
    noise_probability: f64,
    buckets: u32,
    epsilon: f64,
    delta: f64,
    rho: f64,
    order: f64,
    relation: Relation,
    sampling_probability: f64,
    sample_size: u64,
    population_size: u64,
    n_selected: u64,
    n_steps: u64,
    sensitivities: Vec<f64>,
    probabilities: Vec<f64>,
    event: Box<DpEvent>,
    events: Vec<DpEvent>,
    count: u64,
    stopping: Stopping,
    ;
    Gaussian { noise_multiplier, replace_factor },
    Laplace { noise_multiplier },
    DiscreteGaussian { sigma, sensitivity },
    DiscreteLaplace { rate, sensitivity },
    RandomizedResponse { noise_probability, buckets },
    BoundedRange { epsilon, relation },
    ApproxDp { epsilon, delta, relation },
    Zcdp { rho, relation },
    Rdp { order, epsilon, relation },
    PoissonSampled { sampling_probability, event },
    SampledWithoutReplacement { sample_size, population_size, event },
    RandomAllocation { noise_multiplier, n_selected, n_steps },
    MixtureOfGaussians { sigma, sensitivities, probabilities },
    TreeAggregation { noise_multiplier, n_steps },
    Composed { events },
    Repeated { event, count },
    RepeatAndSelect { event, stopping },
    NonPrivate {},
}

tagged! {
    Stopping as StoppingMembers by distribution: Distribution,
    shape: f64,
    success_probability: f64,
    mean: f64,
    ;
    TruncatedNegativeBinomial { shape, success_probability },
    Logarithmic { success_probability },
    Poisson { mean },
}

/// A member that is there, and therefore not null.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// A variant by its name: only a string, although JSON has a second form for variants.
fn named<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    T::deserialize(String::deserialize(from)?.into_deserializer())
}

fn taken<T>(member: &mut Option<T>, name: &str) -> Result<T, String> {
    member
        .take()
        .ok_or_else(|| format!("missing field `{name}`"))
}

fn superfluous(name: &str, tag: &str) -> String {
    format!("unknown field `{name}` for this {tag}")
}
