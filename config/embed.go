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

// Example returns a complete, commented configuration that loads as it is. The caller owns the
// slice.
func Example() []byte { return slices.Clone(example) }

// Schema returns the JSON Schema (draft 2020-12) of the configuration for editors. It describes the
// format of single values. Validate checks the rules between values. The caller owns the slice.
func Schema() []byte { return slices.Clone(schema) }

// Reference returns the table of all settings with their values, defaults and meanings. It is
// generated from the schema and the example.
func Reference() string { return settingsTable }
