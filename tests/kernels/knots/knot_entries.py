"""Internal kernels of the knot flow, as functions that tests can call."""

from shallowflow.kernels.knots import flow, stage, stiff_step
from tests.kernels.entry import entry

block_statistics = entry(stage.block_statistics)
one_sided_velocities = entry(stage.one_sided_velocities)
stage_loss = entry(stage.stage_loss)
summarize_blocks = entry(stage.summarize_blocks)
velocity = entry(stage.velocity)
decide = entry(stage.decide)
seat_arrivals = entry(stage.seat_arrivals)
settle = entry(stage.settle)
exit_fraction = entry(flow.exit_fraction)
first_passage = entry(flow.first_passage)
attempt_step = entry(stiff_step.attempt_step)
error_norm = entry(stiff_step.error_norm)
factorize = entry(stiff_step.factorize)
interpolate = entry(stiff_step.interpolate)
set_interpolant = entry(stiff_step.set_interpolant)
solve = entry(stiff_step.solve)
