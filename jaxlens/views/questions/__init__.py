"""Views that each answer one question, such as cost or memory."""
