"""Compilers of other languages, and the library that they find."""
