"""Builds documents for `render` from a capture and the reports of its lenses."""
