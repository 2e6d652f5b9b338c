import numpy as np

import shallowflow as sf
from shallowflow.data.generators import curve, three_points
from shallowflow.models import SquareLoss
from shallowflow.reporting.figures.runs import eventful_times, run_figure


def test_frames_are_where_the_run_changes() -> None:
    network = sf.initialize.balanced(6, 2, init_scale=1e-3, seed=0)
    run = sf.gradient_flow(network, three_points(), until=2000.0)
    times = eventful_times(run, 30)
    assert times[0] == 0
    assert times[-1] == 2000
    # The last nine tenths of the run are spent at its limit: few frames show them.
    assert 10 < len(times) <= 30
    assert np.sum(times > 200) <= 5


def test_the_loss_is_sampled_between_recorded_times() -> None:
    data = curve(size=9)
    run = sf.gradient_flow(sf.initialize.he_knots(4, seed=0), data, until=1.0)
    drawn = run_figure(run, data, SquareLoss()).panels[0].series[0]
    assert len(drawn.x) > 100
    assert np.all(np.diff(drawn.x) >= 0)
    k = len(drawn.x) // 2
    residual = run(float(drawn.x[k]))(data.inputs) - data.targets
    np.testing.assert_allclose(drawn.y[k], 0.5 * np.mean(residual**2), rtol=1e-9)
