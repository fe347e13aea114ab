// Package openapi contains the OpenAPI description of the public API, which clients can download.
// It describes every field of the requests and responses, every status of every operation, and the
// events in streams.
//
// # Design
//
// openapi.yaml is written by hand and is the source. openapi.json has the same content for tools
// that read only JSON. With -update, the test of this package generates openapi.json from the YAML.
//
// The document is not generated from code, because half of it consists of wire rules (other
// vendors' formats, stream events) that no Go type expresses. Tests ensure that the document is
// correct:
//
//   - The document is valid OpenAPI 3.1.
//   - Every golden answer of package translate and every response of the edge in the end-to-end
//     tests matches its schema.
//   - Tests in proxy/e2e produce each status that the document lists, and no others.
//
// The document's version is the time of its last change, in ISO 8601. Set the version by hand when
// you change requests or responses of the API.
//
// Paths are relative to the server /v1. A path at the root of the host has a separate server entry.
// Response schemas leave objects open, because engines add members and the edge may add more.
package openapi
