"""What several papers use: activity, cones, subgradients, blocks, orthonormal inputs, least squares."""
