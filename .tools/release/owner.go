package main

// The project's owner must choose these values before the first release.
const (
	address    = "https://example.invalid/penstock" // to be chosen by the owner: URL of the project and its releases
	licence    = "to be chosen by the owner"
	maintainer = "to be chosen by the owner <owner@example.invalid>"
	summary    = "Edge reverse proxy and router in front of inference engines"
)
