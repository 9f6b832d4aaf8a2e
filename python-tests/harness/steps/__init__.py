"""Locks step by step on a real server, without the library: our scripts, and what Redisson does on the wire."""
