"""Shardings of arrays over devices, and the collectives between devices."""
