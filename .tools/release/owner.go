package main

// The project's owner must choose these values before the first release.
const (
	// To be chosen by the owner: URL of the project and its releases.
	projectURL     = "https://example.invalid/penstock"
	licence        = "to be chosen by the owner"
	maintainer     = "to be chosen by the owner <owner@example.invalid>"
	packageSummary = "Edge reverse proxy and router in front of inference engines"
)
