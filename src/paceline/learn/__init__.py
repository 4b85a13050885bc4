"""Models, recipes, the deferred graph and its executors."""
