"""The magics: options, completion, running the cell, showing the answer."""
