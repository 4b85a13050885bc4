"""One self-contained HTML page about finished runs; it reads run directories and nothing else."""
