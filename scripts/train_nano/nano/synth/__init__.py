"""A seeded generator of chats: families of small tasks, each with its thinking and its answer."""
