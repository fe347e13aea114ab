package config

import (
	_ "embed"
	"slices"
)

var (
	//go:embed example.yaml
	example []byte
	//go:embed schema.json
	schema []byte
	//go:embed reference.md
	settingsTable string
)

// Example returns a complete, commented configuration, in a slice of the caller's own. It loads as
// it is.
func Example() []byte { return slices.Clone(example) }

// Schema returns the JSON Schema (draft 2020-12) of the configuration for editors, in a slice of
// the caller's own. It knows the form of single values; the rules between them are Validate's.
func Schema() []byte { return slices.Clone(schema) }

// Reference returns the table of all settings with their values, defaults and meanings, which is
// made from the schema and the example.
func Reference() string { return settingsTable }
