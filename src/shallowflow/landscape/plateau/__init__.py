"""Levels, rates and stationary points of networks on the line, [plateau]."""
