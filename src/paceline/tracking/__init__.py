"""Experiment trackers: TensorBoard, MLflow and Weights & Biases, all of them on this machine's disk."""
