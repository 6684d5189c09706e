"""The demonstration behind ``perdure demo``: a workflow of two branches, killed in the middle."""
