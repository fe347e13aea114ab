package result

import _ "embed"

// Schema is the JSON Schema of a result file, generated from the types and their comments.
//
//go:embed result.schema.json
var Schema []byte
