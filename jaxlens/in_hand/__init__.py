"""What came of a program that was changed, or run in part: facts, sentences and both faces."""
