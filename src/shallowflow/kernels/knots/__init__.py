"""Networks on the line: descent, flow and Adam of f(x) = Σ_j c_j relu(x − b_j)."""
