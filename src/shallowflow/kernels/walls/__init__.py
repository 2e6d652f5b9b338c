"""Flow of ReLU networks in any dimension: hyperplanes of the data are walls, neurons are traced exactly."""
