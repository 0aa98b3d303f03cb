"""Constants of a program: arrays that it closes over, and results of constant folding."""
