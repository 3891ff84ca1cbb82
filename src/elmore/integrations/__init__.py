"""Drop-in faces of elmore for other people's programs."""
