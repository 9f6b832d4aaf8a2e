"""What the tests stand on: the build, servers, a RESP client, a proxy with faults."""
