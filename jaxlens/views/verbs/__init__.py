"""The documents of the four verbs: jaxpr, hlo, compile and explore."""
