"""Everything that touches the world on behalf of a run. Workflow code imports `contracts` from here, nothing else."""
