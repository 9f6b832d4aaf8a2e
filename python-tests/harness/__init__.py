"""What the tests are built on: the build, servers, a RESP client, a proxy with faults."""
