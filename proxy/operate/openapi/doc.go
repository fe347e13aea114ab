// Package openapi holds the description of the public API that clients can download: what each path
// takes and gives, field by field, every status of every operation, and the events of the streams.
//
// # Design
//
// openapi.yaml is written by hand and is the source; openapi.json says the same for tools that read
// nothing else. It is generated from the YAML by this package's test with -update and committed, so
// that the program carries no YAML parser for it, and a test fails when the two differ. Both are
// embedded: what `penstock openapi` prints and what the edge serves are the bytes of this build.
//
// It was written rather than generated from code because half of it are rules of the wire (formats
// of other vendors, events of streams) that no Go type in here states. What keeps it true instead
// is tests: the document is valid OpenAPI 3.1, every golden answer of package translate and every
// answer of the edge in the end-to-end tests fits its schema, each status that it lists is produced
// by a test, and no test produces another one (proxy/e2e).
//
// Its version is the time of its last change, in ISO 8601; whoever changes what the API takes or
// gives sets it by hand.
//
// Paths are relative to the server /v1; those of the host itself carry a server of their own.
// Schemas of answers leave objects open, since engines add members and so may we; the tests close
// those that are wholly ours.
package openapi
