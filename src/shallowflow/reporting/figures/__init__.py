"""Figures and films, drawn by matplotlib."""
