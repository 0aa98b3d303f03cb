"""The documents of the verbs: what is shown of a capture, of two, and of several targets."""
