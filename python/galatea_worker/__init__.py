"""Runs one model.py in a process of its own and speaks with the server over one socket and two memory regions."""
