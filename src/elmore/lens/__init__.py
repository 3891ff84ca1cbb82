"""A lens for meaning: learned for any frozen model, from any text, without labels."""
