"""The engines behind `gradient_descent` and `gradient_flow`, one per file."""
