"""A Django project of one application."""
