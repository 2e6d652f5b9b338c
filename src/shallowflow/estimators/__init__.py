"""scikit-learn front: estimators that fit kinks, and the baselines they are compared with."""
