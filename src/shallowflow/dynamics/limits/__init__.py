"""Limit processes: computed from formulas, event to event."""
