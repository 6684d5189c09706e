"""Telemetry: one vocabulary for log lines, metrics and spans, and what brings each of them out of the process."""
