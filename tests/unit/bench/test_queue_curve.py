"""How the benchmark over the number of queues says whether it became slower."""

import pytest

from zenitmq.bench.scale.queue_curve import drift


@pytest.mark.parametrize(
    ("rates", "share"),
    [([100, 100, 100], 0), ([110, 100, 90], -0.2), ([90, 110, 90, 110, 90], 0), ([95, 105], 0.1)],
)
def test_the_drift_is_that_of_the_line_that_fits_best(rates: list[float], share: float) -> None:
    assert drift(rates) == pytest.approx(share, abs=1e-9)
