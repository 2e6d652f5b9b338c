"""How inputs interact, curvature, and first activations, [weak_interaction]."""
