"""Every engine, the ground floor's tests."""
