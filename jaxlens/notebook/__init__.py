"""The only folder that knows IPython."""
