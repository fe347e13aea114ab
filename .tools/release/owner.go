package main

// The project's owner has to choose these before the first release.
const (
	address    = "https://example.invalid/penstock" // to be chosen by the owner: the address of the project and its releases
	licence    = "to be chosen by the owner"
	maintainer = "to be chosen by the owner <owner@example.invalid>"
	summary    = "Edge reverse proxy and router in front of inference engines"
)
