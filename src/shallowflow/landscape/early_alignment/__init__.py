"""Pulls, extremal vectors, balance, and data on which small networks get stuck, [early_alignment]."""
