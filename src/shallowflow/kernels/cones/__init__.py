"""ReLU networks by activation cone: neurons that see the same data move by one map."""
