"""End-to-end tests: the service beside real and synthetic mints, with faults, under load, for a long time."""
