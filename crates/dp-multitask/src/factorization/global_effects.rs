//! Global effects: two taste factors that follow from what a run releases anyway.

/// Number of global effects of a model that has them.
pub(super) const N_EFFECTS: usize = 2;

/// Root mean square of an effect over the users' records. Small effects are penalised more: a user
/// needs more records to depart from what is common. Chosen on the validation parts of five data
/// sets (decision 0086).
const SIZE: f64 = 0.3;

/// Appends the global effects to rows `[h_i, q_i]` of length `dim`, and their standard errors to
/// those of the rows.
///
/// ```text
/// g_i = [s (h_i - mean h) / sd h,  s (ln W_i - mean ln W) / sd ln W]           s = 0.3
/// ```
///
/// `W_i` are the items' released total weights, at least the standard deviation of their noise, by
/// which means and standard deviations are weighted. By the first column a user follows the item
/// biases more or less, by the second they like popular items more or less. Source: Bell and Koren
/// 2007, "user x movie average" and "user x movie support". A column without spread is 0.
///
/// Post-processing of releases.
pub(super) fn with_global_effects(
    (rows, errors): (&[f64], Option<&[f64]>),
    dim: usize,
    (totals, noise_stddev): (&[f64], f64),
) -> (Vec<f64>, Option<Vec<f64>>) {
    let biases = rows.iter().step_by(dim).copied().collect();
    let logarithms = totals
        .iter()
        .map(|w| w.max(f64::MIN_POSITIVE).ln())
        .collect();
    let columns = [biases, logarithms].map(|column| standardised(column, totals));
    let [of_biases, of_logarithms] = [0, 1].map(|at| columns[at].1);
    let with_effects = errors.map(|errors| {
        let each = errors.chunks_exact(dim).zip(totals);
        // at most 1: totals below their noise are set to it
        let error = |w: f64| of_logarithms * (noise_stddev / w).min(1.0);
        each.flat_map(|(row, w)| [row, &[of_biases * row[0], error(*w)]].concat())
            .collect()
    });
    let [of_bias, of_logarithm] = columns.map(|column| column.0);
    let effects = of_bias.iter().zip(&of_logarithm);
    let rows = rows.chunks_exact(dim).zip(effects);
    let rows = rows.flat_map(|(row, (bias, popular))| [row, &[*bias, *popular]].concat());
    (rows.collect(), with_effects)
}

/// The column around its weighted mean with root mean square [`SIZE`], and by what it was multiplied.
fn standardised(column: Vec<f64>, weights: &[f64]) -> (Vec<f64>, f64) {
    let total: f64 = weights.iter().sum();
    let mean_of = |f: &dyn Fn(f64) -> f64| {
        let terms = column.iter().zip(weights).map(|(x, w)| w * f(*x));
        terms.sum::<f64>() / total
    };
    let mean = mean_of(&|x| x);
    let stddev = mean_of(&|x| (x - mean).powi(2)).sqrt();
    // rounding leaves some spread in a column of equal numbers
    let scale = match stddev > 1e-9 * (1.0 + mean.abs()) {
        true => SIZE / stddev,
        false => 0.0,
    };
    let column = column.iter().map(|x| scale * (x - mean)).collect();
    (column, scale)
}

#[cfg(test)]
mod tests {
    use approx::assert_relative_eq;

    use super::*;

    #[test]
    fn effects_are_standardised_by_the_total_weights() {
        let rows = [0.2, 7.0, 0.0, 8.0, -0.2, 9.0];
        let errors = [0.1, 0.3, 0.2, 0.3, 0.4, 0.3];
        let (found, of) = with_global_effects((&rows, Some(&errors)), 2, (&[1.0, 8.0, 1.0], 0.5));
        let of = of.unwrap();
        // biases: weighted mean 0, variance (.04 + 0 + .04) / 10
        let by_bias = 0.3 / 0.008_f64.sqrt();
        // logarithms 0, ln 8, 0: mean .8 ln 8, variance .16 ln^2 8
        let ln = 8_f64.ln();
        let by_log = 0.3 / (0.4 * ln);
        for (item, (h, log, error)) in [(0.2, 0.0, 0.5), (0.0, ln, 0.0625), (-0.2, 0.0, 0.5)]
            .into_iter()
            .enumerate()
        {
            let (row, errors) = (&found[4 * item..][..4], &of[4 * item..][..4]);
            assert_relative_eq!(row[1], rows[2 * item + 1]);
            assert_relative_eq!(row[2], by_bias * h, epsilon = 1e-12);
            assert_relative_eq!(row[3], by_log * (log - 0.8 * ln), epsilon = 1e-12);
            assert_relative_eq!(errors[2], by_bias * errors[0], epsilon = 1e-12);
            assert_relative_eq!(errors[3], by_log * error, epsilon = 1e-12);
        }
    }

    #[test]
    fn an_effect_without_spread_is_nothing() {
        let (found, none) = with_global_effects((&[0.1; 7], None), 1, (&[0.5; 7], 0.5));
        assert!(none.is_none() && found.chunks(3).all(|row| row == [0.1, 0.0, 0.0]));
    }
}
