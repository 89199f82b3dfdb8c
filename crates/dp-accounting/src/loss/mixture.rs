/// Which pair of distributions a sampled mechanism compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Side {
    /// P the mixture, Q the noise alone.
    Remove,
    /// P the noise alone, Q the mixture.
    Add,
    /// P the mixture, Q its mirror image at 0.
    Replace,
}

/// Normals of standard deviation `sigma` at `shifts[i]` with weights `weights[i]`:
///
/// ```text
/// M = Σ_i w_i N(s_i, σ²)      ℓ(x) = ln dM/dN(0, σ²) = ln Σ_i w_i exp((s_i x - s_i²/2) / σ²)
/// Remove: P = M, Q = N(0, σ²), L = ℓ(x)        Add: P = N(0, σ²), Q = M, L = -ℓ(x)
/// Replace: P = M, Q = M mirrored, L = ℓ(x) - ℓ(-x)
/// ```
///
/// The shifts are not negative, so ℓ rises with x. That these pairs dominate in every dimension
/// follows from Neyman and Pearson: among events A with N(0, σ²)(A) = a, the half-space
/// {x_1 > t} has at once the largest probability under a normal shifted by s_i in any direction
/// and the smallest under one shifted by as much in any other.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MixtureLoss {
    /// Standard deviation of the noise.
    pub(crate) sigma: f64,
    /// Shifts, ascending, not negative; the first may be 0.
    pub(crate) shifts: Vec<f64>,
    /// Weights, positive, with sum 1.
    pub(crate) weights: Vec<f64>,
    /// Which pair.
    pub(crate) side: Side,
}
