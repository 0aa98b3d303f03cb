"""Programs that are traced or compiled in another form, to see what would change."""
