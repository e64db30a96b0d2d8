"""API descriptions and the bridge: schemathesis makes requests from a description and looks at the answers."""
