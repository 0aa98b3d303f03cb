"""Tests, in folders named as the packages of `jaxlens/` whose behaviour they hold.

`backend/` has those that go through all packages with a live program, `browser/` those in a real
Chromium, `records/` saved captures and the scripts that make them, `bench/` ratios of time (run by
hand), and `support/` what several files share.
"""
