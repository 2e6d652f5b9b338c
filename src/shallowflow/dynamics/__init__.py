"""Theory with a clock: a network and a data set in, a trajectory out."""
