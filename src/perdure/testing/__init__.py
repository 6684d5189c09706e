"""What users and third parties test with."""
