"""Neurons that move alone, pulled by forces that do not change."""
