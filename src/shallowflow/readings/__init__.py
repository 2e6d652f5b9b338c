"""Finished runs, read: stages, phases, jumps. Nothing here runs an engine."""
