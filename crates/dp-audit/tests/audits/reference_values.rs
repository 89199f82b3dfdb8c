//! Statistics against values of `scripts/reference_values.py` (mpmath at 40 digits, scipy).

use dp_audit::statistics::{
    chi_square_lower_tail, chi_square_upper_tail, clopper_pearson, normal_cdf, normal_quantile,
};

fn close(found: f64, expected: f64, relative: f64) {
    assert!(
        (found - expected).abs() <= relative * expected.abs(),
        "{found:e}, expected {expected:e}"
    );
}

#[test]
fn chi_square_tails() {
    for (degrees, x, upper) in [
        (1.0, 0.01, 0.920_344_325_445_942),
        (3.0, 7.8, 0.050_331_097_859_853_35),
        (10.0, 2.5, 0.990_875_720_781_604_7),
        (100.0, 180.0, 1.649_498_501_717_824_8e-6),
        (413.0, 600.0, 4.586_409_202_132_399e-9),
        (5000.0, 4700.0, 0.998_876_538_616_200_6),
        (572_618.0, 579_000.0, 1.405_931_020_436_604_6e-9),
        (572_618.0, 572_000.0, 0.718_053_991_374_383_9),
        (1e7, 10_026_000.0, 3.144_329_298_187_622e-9),
    ] {
        close(chi_square_upper_tail(degrees, x), upper, 1e-9);
        close(chi_square_lower_tail(degrees, x), 1.0 - upper, 1e-9);
    }
    assert!(chi_square_upper_tail(0.0, 1.0).is_nan());
    assert!(chi_square_upper_tail(3.0, f64::NAN).is_nan());
    assert!(chi_square_upper_tail(3.0, 0.0) >= 1.0);
}

#[test]
fn normal_quantiles() {
    for (p, x) in [
        (1e-300, -37.047_096_299_361_2),
        (1e-9, -5.997_807_015_007_687),
        (1e-6, -4.753_424_308_822_899),
        (0.001, -3.090_232_306_167_813_5),
        (0.3, -0.524_400_512_708_040_8),
        (0.8, 0.841_621_233_572_914_2),
        (0.999_999, 4.753_424_308_822_899),
    ] {
        // 1 - p of the last row is known to 1e-16 / 1e-6 only
        close(normal_quantile(p), x, if p > 0.99 { 1e-11 } else { 1e-13 });
        close(normal_cdf(x), p, 1e-11);
    }
    assert!(normal_quantile(0.5).abs() < 1e-15);
    assert!(normal_quantile(1.5).is_nan() && normal_quantile(f64::NAN).is_nan());
    assert!(normal_quantile(0.0).is_infinite() && normal_quantile(1.0).is_infinite());
}

#[test]
fn clopper_pearson_bounds() {
    for (hits, trials, level, low, high) in [
        (1, 10, 0.05, 0.005_116_196_891_82, 0.394_163_302_437),
        (5, 10, 0.025, 0.187_086_028_447, 0.812_913_971_553),
        (4_600, 16_000, 1e-9, 0.266_342_646_754, 0.309_304_159_172),
        (0, 16_000, 1e-9, 0.0, 0.001_294_365_699_97),
        (15_999, 16_000, 5e-4, 0.999_375_258_358, 0.999_999_968_742),
        (2_539, 16_000, 5e-10, 0.141_553_792_518, 0.176_898_975_327),
    ] {
        let bounds = clopper_pearson(hits, trials, level);
        assert!((bounds.low - low).abs() < 1e-9 && bounds.low <= low);
        assert!((bounds.high - high).abs() < 1e-9 && bounds.high >= high);
    }
}
