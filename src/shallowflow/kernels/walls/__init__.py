"""Gradient flow of ReLU networks in any dimension: hyperplanes of the data as walls, neurons traced exactly."""
