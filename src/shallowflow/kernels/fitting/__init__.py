"""Continuous piecewise linear least squares: elimination along the chain of knots, search for them."""
