"""API descriptions and the bridge: schemathesis makes requests from one and looks at the answers."""
