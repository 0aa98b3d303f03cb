"""The graph model, the stages and their readers. Pure: text in, frozen data out."""
