from cluster import slurm  # noqa: F401
