"""The clock: one loop, one recorder, one kind of result, one kind of file for everything that runs in time."""
