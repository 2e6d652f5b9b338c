"""How far gradient descent gets on sin πx, by width: a study of 12 runs."""

import numpy as np

import shallowflow as sf


def train(parameters, seed):
    """One run: a network of some width from a random start."""
    dataset = sf.data.GENERATORS["curve"]("sin_pi", size=100)
    network = sf.initialize.he_knots(parameters["width"], seed=np.random.default_rng(seed))
    trajectory = sf.gradient_descent(network, dataset, step=0.1, steps=parameters["steps"])
    return {"loss": trajectory.losses[-1], "losses": trajectory.losses}


study = sf.studies.Study(
    "widths", train, grid={"width": [5, 10, 20], "steps": [2_000]}, repeats=4, root_seed=1
)

if __name__ == "__main__":
    with sf.studies.Store("results") as store:
        for result in sf.studies.run(study, sf.studies.Processes(), store):
            print(result.parameters["width"], result.repeat, result.status, f"{result.metrics['loss']:.2e}")
