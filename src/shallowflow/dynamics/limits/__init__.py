"""Limit processes: computed from formulas, event to event, with no time step."""
