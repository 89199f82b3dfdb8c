//! The discrete Fourier transform of real numbers whose count is a power of two.

use num_complex::Complex64;

use super::spectrum::angle;

/// `X_k = Σ_j input_j e^(-2 π i j k / N)` for k from 0 to N/2, with N the length of `input`, a power
/// of two.
///
/// Even and odd places become the real and imaginary parts of N/2 complex numbers, whose transform
/// (radix 2, in the order of Stockham) is separated afterwards: log2 N levels, each a product with a
/// root of unity and a sum.
pub(super) fn real_transform(input: &[f64]) -> Vec<Complex64> {
    let n = input.len();
    debug_assert!(n.is_power_of_two());
    let half = n / 2;
    if half == 0 {
        return input.iter().map(|&w| Complex64::new(w, 0.0)).collect();
    }
    let roots: Vec<Complex64> = (0..half).map(|k| root(k, n)).collect();
    let packed = input.chunks_exact(2).map(|w| Complex64::new(w[0], w[1]));
    let z = complex_transform(packed.collect(), &roots);
    let at = |k: usize| {
        let (a, b) = (z[k % half], z[(half - k) % half].conj());
        let (even, odd) = (0.5 * (a + b), 0.5 * (a - b));
        let turned = odd * if k == half { -Complex64::ONE } else { roots[k] };
        Complex64::new(even.re + turned.im, even.im - turned.re)
    };
    (0..=half).map(at).collect()
}

/// The transform of `x`; `roots` are half of the roots of unity of twice the length.
fn complex_transform(mut x: Vec<Complex64>, roots: &[Complex64]) -> Vec<Complex64> {
    let mut y = vec![Complex64::ZERO; x.len()];
    let mut run = 1;
    while run < x.len() {
        let (front, back) = x.split_at(x.len() / 2);
        let pairs = front.chunks_exact(run).zip(back.chunks_exact(run));
        for (p, ((a, b), out)) in pairs.zip(y.chunks_exact_mut(2 * run)).enumerate() {
            let w = roots[2 * run * p];
            let (sums, differences) = out.split_at_mut(run);
            for (((a, b), sum), difference) in a.iter().zip(b).zip(sums).zip(differences) {
                *sum = a + b;
                *difference = (a - b) * w;
            }
        }
        std::mem::swap(&mut x, &mut y);
        run *= 2;
    }
    x
}

/// e^(-2 π i k / n).
fn root(k: usize, n: usize) -> Complex64 {
    let (sin, cos) = libm::sincos(angle(k as u64, 1, n as i64));
    Complex64::new(cos, -sin)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, with every angle reduced exactly.
    fn direct(input: &[f64], k: usize) -> Complex64 {
        let n = input.len();
        let terms = input.iter().enumerate();
        terms.map(|(j, &w)| root(j * k % n, n) * w).sum()
    }

    #[test]
    fn it_is_the_sum_of_the_definition_at_every_length() {
        for n in (0..11).map(|e| 1_usize << e) {
            let input: Vec<f64> = (0..n)
                .map(|j| libm::sin(1.0 + (j * j) as f64) / (1.0 + j as f64))
                .collect();
            let norm = input.iter().map(|w| w * w).sum::<f64>().sqrt();
            let output = real_transform(&input);
            assert_eq!(output.len(), n / 2 + 1);
            for (k, x) in output.iter().enumerate() {
                let error = (x - direct(&input, k)).norm();
                assert!(
                    error <= 1e-14 * norm * (n as f64).sqrt(),
                    "n {n}, k {k}: {error}"
                );
            }
        }
    }
}
