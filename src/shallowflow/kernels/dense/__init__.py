"""ReLU networks neuron by neuron and sample by sample, in register tiles."""
