"""Test suites and clients of other people, run against the bridge (`npm run conformance`)."""
