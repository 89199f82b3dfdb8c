import pytest

import dp_personal as dp


def test_epsilon_of_gaussian_releases() -> None:
    one = dp.accounting.gaussian_epsilon(noise_multiplier=1.0, delta=1e-5)
    assert one == pytest.approx(4.377178095681225, abs=1e-12)
    ten = dp.accounting.gaussian_epsilon(noise_multiplier=10.0, delta=1e-5, releases=100)
    assert ten == pytest.approx(one, abs=1e-12)


def test_a_setting_out_of_range_is_named() -> None:
    with pytest.raises(dp.BadSetting, match="delta") as raised:
        dp.accounting.gaussian_epsilon(noise_multiplier=1.0, delta=0.0)
    assert raised.value.setting == "delta"
    assert isinstance(raised.value, ValueError)
