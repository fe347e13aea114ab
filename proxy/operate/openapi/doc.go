// Package openapi holds the description of the public API that clients can download: the requests
// and answers of each path, field by field, every status of every operation, and the events of the
// streams.
//
// # Design
//
// openapi.yaml is written by hand and is the source; openapi.json has the same content for tools
// that read only JSON. This package's test generates it from the YAML with -update. It is
// committed, so that the program needs no YAML parser for it. A test fails if the two differ. Both
// are embedded: `penstock openapi` prints, and the edge serves, the bytes of this build.
//
// The document is written by hand, not generated from code, because half of it consists of wire
// rules (formats of other vendors, events of streams) that no Go type here expresses. Tests keep it
// correct. The document is valid OpenAPI 3.1. Every golden answer of package translate and every
// answer of the edge in the end-to-end tests fits its schema. Tests in proxy/e2e produce each
// status that it lists, and no others.
//
// Its version is the time of its last change, in ISO 8601. Set it by hand when you change requests
// or answers of the API.
//
// Paths are relative to the server /v1; those of the host itself carry their own server. Schemas of
// answers leave objects open, because engines add members, and the edge may add some, too. The
// tests close the schemas that only the edge writes.
package openapi
