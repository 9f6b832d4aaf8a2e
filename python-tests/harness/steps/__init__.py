"""Locks step by step on a real server, without the library: our scripts, and Redisson's commands on the wire."""
