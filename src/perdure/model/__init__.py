"""The pure part of Perdure: no I/O, no clock, no threads; its laws have property tests."""
