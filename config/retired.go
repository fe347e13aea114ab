package config

import "penstock/config/strictyaml"

// retired are the settings of earlier versions, by path. A setting that goes gets a line here: a
// file that was right stays right, and its operator learns what to do. Unsafe is for a limit or a
// consent, which a file must not lose silently.
var retired = map[string]strictyaml.Retired{
	"upstreams[].native": {Remedy: "requests of every dialect are translated for every engine; delete it"},
	"engines[].native":   {Remedy: "requests of every dialect are translated for every engine; delete it"},
}
