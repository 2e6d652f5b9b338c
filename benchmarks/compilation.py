"""How long does the first use of an engine compile, and what is left of it in the next process?

Every verb, by the engines with the most code, each on a small problem, in a new process with an empty cache,
and again in another process with what the first one left. Processor seconds of the call, imports of Numba
included. With words as arguments: the rows that contain one of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

PLANE = """
data = sf.data.GENERATORS["three_points"]()
net = sf.initialize.balanced(width=50, dimension=2, init_scale=0.1)
"""
CURVE = """
data = sf.data.GENERATORS["curve"]("sin_pi", size=100)
net = sf.initialize.he_knots(10, seed=0)
"""
TARGET = """
data = sf.PiecewiseConstant([0.5], [0.0, 1.0])
net = sf.initialize.uniform_positions(width=20, sharpness=4e-3, seed=1)
"""
ORTHONORMAL = """
data = sf.data.GENERATORS["orthonormal"](16, labels="positive", seed=0)
net = sf.initialize.log_scaled(4, 16, log_scale=-700.0, seed=1)
"""
TINY = """
data = sf.data.GENERATORS["three_points"]()
net = sf.initialize.balanced(width=50, dimension=2, init_scale=1e-8)
"""
SAMPLES = """
data = sf.Dataset([[0.1], [0.4], [0.8]], [0.0, 1.0, 0.5])
"""
DESCENT = 'sf.gradient_descent(net, data, step=1e-3, steps=100, engine="{}")'
FLOW = 'sf.gradient_flow(net, data, until=1.0, engine="{}")'
IN_THE_PLANE = ("cones", "patterns", "fused", "lanes")
USES = {
    **{f"descent, {name}": (PLANE, DESCENT.format(name)) for name in IN_THE_PLANE},
    "descent, blocks": (CURVE, DESCENT.format("blocks")),
    "descent, scaled": (ORTHONORMAL, DESCENT.format("scaled")),
    "flow, cones": (PLANE, FLOW.format("cones")),
    "flow, stages": (CURVE, FLOW.format("stages")),
    "flow, scaled": (ORTHONORMAL, "sf.gradient_flow(net, data, until=1e4)"),
    "flow, walls": (PLANE, FLOW.format("walls")),
    "flow by the clock": (TINY, "sf.gradient_flow(net, data, until=60.0, leap=1e-3, engine='cones')"),
    "population flow": (TARGET, "sf.population_flow(net, data, until=0.1, epsilon=0.1)"),
    "limit": (TARGET, "sf.two_timescale_limit(net, data, until=0.1)"),
    "jump process": (ORTHONORMAL, "sf.saddle_to_saddle(net, data)"),
    "descent, windows": (TARGET + SAMPLES, DESCENT.format("windows")),
    "mini-batches": (PLANE, "sf.stochastic_descent(net, data, step=1e-3, steps=99, batch=2, engine='lanes')"),
    "Adam": (CURVE, "sf.adam(net, data, steps=100)"),
    "least squares": (CURVE, "sf.least_squares_outer(net, data)"),
    "SGD of steps": (TARGET, "sf.stochastic_descent(net, data, step=1e-5, epsilon=1e-2, steps=1000, seed=1)"),
    "ANLSRegressor": (CURVE, "sf.estimators.ANLSRegressor(n_knots=5).fit(data.inputs, data.targets)"),
}


def seconds(setting: str, call: str, cache: str) -> float:
    """Return the processor seconds of a call in a new process."""
    code = f"import time\nimport shallowflow as sf\n{setting}\nstart = time.process_time()\n{call}\n"
    code += "print(time.process_time() - start)"
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def main() -> None:
    """Print a line per engine."""
    words = sys.argv[1:] if sys.argv[0].endswith("compilation.py") else []
    print("first use, then the next process; processor seconds")
    for name, (setting, call) in USES.items():
        if words and not any(word in name for word in words):
            continue
        with tempfile.TemporaryDirectory() as cache:
            first = seconds(setting, call, cache)
            print(f"  {name:<18} {first:5.1f} {seconds(setting, call, cache):6.2f}", flush=True)


if __name__ == "__main__":
    main()
