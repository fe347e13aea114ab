// Package openapi holds the description of the public API that clients can download: what each path
// takes and gives, field by field, every status of every operation, and the events of the streams.
//
// # Design
//
// openapi.yaml is written by hand and is the source; openapi.json says the same for tools that read
// nothing else. This package's test generates it from the YAML with -update, and it is committed,
// so that the program carries no YAML parser for it. A test fails when the two differ. Both are
// embedded: `penstock openapi` prints, and the edge serves, the bytes of this build.
//
// The document is written rather than generated from code because half of it is rules of the wire
// (formats of other vendors, events of streams) that no Go type here states. Tests keep it true
// instead. The document is valid OpenAPI 3.1. Every golden answer of package translate and every
// answer of the edge in the end-to-end tests fits its schema. A test produces each status that it
// lists, and no test produces another one (proxy/e2e).
//
// Its version is the time of its last change, in ISO 8601. Set it by hand when you change what the
// API takes or gives.
//
// Paths are relative to the server /v1; those of the host itself carry their own server. Schemas of
// answers leave objects open, since engines add members and so may we. The tests close the schemas
// that only the edge writes.
package openapi
