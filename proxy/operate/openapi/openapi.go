package openapi

import _ "embed" // embeds the two files

var (
	//go:embed openapi.yaml
	yamlText []byte
	//go:embed openapi.json
	jsonText []byte
)

// YAML returns the description of the API as YAML. The caller must not modify the bytes.
func YAML() []byte { return yamlText }

// JSON returns the description of the API as JSON. The caller must not modify the bytes.
func JSON() []byte { return jsonText }
