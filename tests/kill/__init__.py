"""Every verb that writes, killed at random moments."""
