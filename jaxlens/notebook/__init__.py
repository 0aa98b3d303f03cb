"""The IPython extension, magics, cell runner and widgets; only this package imports IPython."""
