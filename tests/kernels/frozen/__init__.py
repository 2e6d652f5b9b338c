"""Tests of the kernels for neurons under frozen forces."""
