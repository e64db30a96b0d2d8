"""API descriptions and the bridge: schemathesis makes requests from one and checks the responses."""
