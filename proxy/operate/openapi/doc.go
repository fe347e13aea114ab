// Package openapi holds the description of the public API, which clients can download. It describes
// the requests and answers of each path, field by field, every status of every operation, and the
// events in streams.
//
// # Design
//
// openapi.yaml is written by hand and is the source; openapi.json has the same content for tools
// that read only JSON. This package's test generates openapi.json from the YAML with -update. The
// JSON is committed, so that the program needs no YAML parser. A test fails if the two differ. Both
// are embedded: `penstock openapi` prints the bytes of this build, and the edge serves the same
// bytes.
//
// The document is written by hand, not generated from code, because half of it consists of wire
// rules (formats of other vendors, events of streams) that no Go type here expresses. Tests keep it
// correct. The document is valid OpenAPI 3.1. Every golden answer of package translate and every
// answer of the edge in the end-to-end tests fits its schema. Tests in proxy/e2e produce each
// status that the document lists, and no others.
//
// The document's version is the time of its last change, in ISO 8601. Set it by hand when you
// change requests or answers of the API.
//
// Paths are relative to the server /v1; a path at the root of the host has a server of its own.
// Schemas of answers leave objects open, because engines add members, and the edge may add some,
// too. The tests close the schemas that only the edge writes.
package openapi
