"""ReLU networks on orthogonal inputs: descent, and flow at any scale."""
