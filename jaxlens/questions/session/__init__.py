"""What `%jaxlens on` watches in the cells of a session."""
