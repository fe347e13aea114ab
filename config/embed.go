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

// Example returns a complete, commented, valid configuration. The caller owns the slice.
func Example() []byte { return slices.Clone(example) }

// Schema returns the JSON Schema (draft 2020-12) of the configuration, for editors. It covers the
// format of single values, and Validate checks the rules between values. The caller owns the slice.
func Schema() []byte { return slices.Clone(schema) }

// SettingsReference returns a table of all settings with their values, their defaults and their
// meanings. It is generated from the schema and the example.
func SettingsReference() string { return settingsTable }
