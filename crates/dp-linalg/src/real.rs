use crate::kernels::Kernel;

/// The element types of the kernels: `f32` and `f64`. Sealed.
#[allow(
    private_bounds,
    reason = "the private supertrait holds the kernels and seals the trait"
)]
pub trait Real: Kernel {}

impl Real for f32 {}
impl Real for f64 {}
