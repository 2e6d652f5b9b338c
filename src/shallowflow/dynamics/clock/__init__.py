"""The clock: one loop, one recorder, one result and one kind of file for everything that runs in time."""
