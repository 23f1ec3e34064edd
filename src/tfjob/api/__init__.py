"""The TFJob contract: types, older versions, defaults, validation, names."""
