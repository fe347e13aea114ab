package main

// What the owner of the project has to choose before a first release.
const (
	address    = "https://example.invalid/penstock" // to be chosen by the owner: where the project and its releases are
	licence    = "to be chosen by the owner"
	maintainer = "to be chosen by the owner <owner@example.invalid>"
	summary    = "Edge reverse proxy and router in front of inference engines"
)
