//! The network as an objective in shared and local parameters.

use candle_core::{D, Device, Tensor, Var};
use candle_nn::loss::cross_entropy;
use dp_fedsgd::{Gradients, Minibatch, PersonalizedObjective, Point};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;

use crate::glyphs::{N_CLASSES, SIDE};

const CHANNELS: usize = 6;
const KERNEL: usize = 5;
const STRIDE: usize = 2;
/// Pixels along a side after the convolution.
const OUT: usize = (SIDE - KERNEL) / STRIDE + 1;
const N_FEATURES: usize = CHANNELS * OUT * OUT;
const N_KERNELS: usize = CHANNELS * KERNEL * KERNEL;
const N_CONVOLUTION: usize = N_KERNELS + CHANNELS;
/// Weights and biases of a head.
const N_HEAD: usize = N_CLASSES * (N_FEATURES + 1);

/// ```text
/// phi(x) = relu(K * x + k)                       shared: 6 kernels of 5 x 5, stride 2
/// scores = (H + H_i) phi(x) + (h + h_i)          shared H, h; a user's own H_i, h_i
/// ```
///
/// with cross-entropy loss: an additive model on top of a shared representation. The shared
/// parameters are `(K, k, H, h)` in one vector and clipped as one. They are learned as differences
/// from a public random initialisation: the zero vector would be a network in which no gradient
/// flows.
#[derive(Debug, Clone)]
pub struct SharedCnn {
    start: Vec<f64>,
}

impl SharedCnn {
    /// The network, initialised from a public seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let reach = (6.0 / (KERNEL * KERNEL) as f64).sqrt();
        let kernels = (0..N_KERNELS).map(|_| rng.random_range(-reach..reach));
        let mut start: Vec<f64> = kernels.collect();
        start.resize(N_CONVOLUTION + N_HEAD, 0.0);
        Self { start }
    }

    /// The scores of images, with the variables for which gradients are computed.
    fn scores(&self, at: Point<'_>, pictures: &Tensor) -> candle_core::Result<(Tensor, [Var; 2])> {
        let shared = self
            .start
            .iter()
            .zip(at.shared)
            .map(|(s, w)| (s + w) as f32);
        let local = at.local.iter().map(|&theta| theta as f32);
        let shared = Var::from_vec(shared.collect(), N_CONVOLUTION + N_HEAD, &Device::Cpu)?;
        let local = Var::from_vec(local.collect(), N_HEAD, &Device::Cpu)?;
        let kernels = shared.narrow(0, 0, N_KERNELS)?;
        let kernels = kernels.reshape((CHANNELS, 1, KERNEL, KERNEL))?;
        let offsets = shared.narrow(0, N_KERNELS, CHANNELS)?;
        let offsets = offsets.reshape((1, CHANNELS, 1, 1))?;
        let phi = pictures.conv2d(&kernels, 0, STRIDE, 1, 1)?;
        let phi = phi.broadcast_add(&offsets)?.relu()?.flatten_from(1)?;
        let head = (shared.narrow(0, N_CONVOLUTION, N_HEAD)? + local.as_tensor())?;
        let weights = head.narrow(0, 0, N_CLASSES * N_FEATURES)?;
        let weights = weights.reshape((N_CLASSES, N_FEATURES))?;
        let biases = head.narrow(0, N_CLASSES * N_FEATURES, N_CLASSES)?;
        let scores = phi.matmul(&weights.t()?)?.broadcast_add(&biases)?;
        Ok((scores, [shared, local]))
    }

    /// Adds the gradients of the summed loss.
    fn add_gradients(
        &self,
        at: Point<'_>,
        batch: &Minibatch,
        out: &mut Gradients,
    ) -> candle_core::Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        let (scores, variables) = self.scores(at, &pictures(batch.rows().map(|(x, _)| x))?)?;
        let labels: Vec<u32> = batch.rows().map(|(_, y)| class(y)).collect();
        let labels = Tensor::from_vec(labels, batch.len(), &Device::Cpu)?;
        let loss = (cross_entropy(&scores, &labels)? * batch.len() as f64)?;
        let gradients = loss.backward()?;
        for (variable, sum) in variables.iter().zip([&mut out.shared, &mut out.local]) {
            let Some(gradient) = gradients.get(variable) else {
                continue;
            };
            for (sum, g) in sum.iter_mut().zip(gradient.to_vec1::<f32>()?) {
                *sum += f64::from(g);
            }
        }
        Ok(())
    }

    /// Number of a user's rows that the model classifies correctly.
    ///
    /// # Errors
    /// Errors of candle.
    pub fn n_right(&self, at: Point<'_>, rows: &[(Vec<f32>, f32)]) -> candle_core::Result<usize> {
        let (scores, _) = self.scores(at, &pictures(rows.iter().map(|(x, _)| &x[..]))?)?;
        let found = scores.argmax(D::Minus1)?.to_vec1::<u32>()?;
        let right = found
            .iter()
            .zip(rows)
            .filter(|(k, (_, y))| **k == class(*y));
        Ok(right.count())
    }

    fn one_row(&self, at: Point<'_>, x: &[f32], y: f32) -> Gradients {
        let mut batch = Minibatch::new(x.len());
        batch.push(x, y);
        let mut out = Gradients::default();
        out.reset(self);
        self.gradients(at, &batch, &mut out);
        out
    }
}

impl PersonalizedObjective for SharedCnn {
    fn n_features(&self) -> usize {
        SIDE * SIDE
    }

    fn n_shared(&self) -> usize {
        N_CONVOLUTION + N_HEAD
    }

    fn n_local(&self) -> usize {
        N_HEAD
    }

    fn loss(&self, at: Point<'_>, x: &[f32], y: f32) -> f64 {
        let value = || {
            let (scores, _) = self.scores(at, &pictures([x].into_iter())?)?;
            let label = Tensor::new(&[class(y)], &Device::Cpu)?;
            cross_entropy(&scores, &label)?.to_scalar::<f32>()
        };
        value().map_or(f64::NAN, f64::from)
    }

    fn grad_shared(&self, at: Point<'_>, x: &[f32], y: f32, out: &mut [f64]) {
        add(out, &self.one_row(at, x, y).shared);
    }

    fn grad_local(&self, at: Point<'_>, x: &[f32], y: f32, out: &mut [f64]) {
        add(out, &self.one_row(at, x, y).local);
    }

    /// An image of another size, or any other input that candle refuses, has gradient 0.
    fn gradients(&self, at: Point<'_>, batch: &Minibatch, out: &mut Gradients) {
        if self.add_gradients(at, batch, out).is_err() {
            out.reset(self);
        }
    }
}

fn pictures<'a>(rows: impl Iterator<Item = &'a [f32]>) -> candle_core::Result<Tensor> {
    let cells: Vec<f32> = rows.flatten().copied().collect();
    let n = cells.len() / (SIDE * SIDE);
    Tensor::from_vec(cells, (n, 1, SIDE, SIDE), &Device::Cpu)
}

/// The class of a label; a label that is not a class counts as the first.
fn class(y: f32) -> u32 {
    let known = y >= 0.0 && y < N_CLASSES as f32;
    if known { y as u32 } else { 0 }
}

fn add(out: &mut [f64], gradient: &[f64]) {
    for (out, g) in out.iter_mut().zip(gradient) {
        *out += g;
    }
}
