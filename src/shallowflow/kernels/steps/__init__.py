"""Networks of smooth steps: exact integrals, descent, stochastic descent."""
