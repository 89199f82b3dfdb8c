//! The samplers compared with their exact probabilities, moments and tails.

mod discrete_gaussian;
mod sampler_exact_pmf;
mod sampler_moments;
mod sampler_support;
