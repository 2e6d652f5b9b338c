"""Limit processes and closed forms: computed from formulas, event to event, with no time step."""
