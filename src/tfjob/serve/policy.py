"""Which versions of a model to load, to unload and to keep. Pure."""
