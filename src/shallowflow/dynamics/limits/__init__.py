"""Limit processes and closed forms: computed from formulas, with no time step."""
