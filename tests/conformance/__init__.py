"""Third-party test suites and clients, run against the bridge (`npm run conformance`)."""
