"""Models, recipes, the deferred graph, the executor that computes it, and the trainers that do the training."""
