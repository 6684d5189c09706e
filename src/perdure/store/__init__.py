"""Where runs live. The only part of Perdure that knows SQL."""
