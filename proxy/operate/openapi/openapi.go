package openapi

import _ "embed" // for the two embedded files

var (
	//go:embed openapi.yaml
	yamlText []byte
	//go:embed openapi.json
	jsonText []byte
)

// YAML returns the description of the API as YAML. The bytes are shared and must not be changed.
func YAML() []byte { return yamlText }

// JSON returns the same description as JSON. The bytes are shared and must not be changed.
func JSON() []byte { return jsonText }
