"""Where jobs live: the protocol, Redis, and memory for tests."""
