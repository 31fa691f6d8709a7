"""The flat view: one regex for what is truly flat and small. For people; nothing decodes by it."""
