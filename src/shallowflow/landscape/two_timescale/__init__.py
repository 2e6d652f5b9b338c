"""Population loss and classes of targets, [two_timescale]."""
