package config

import "penstock/config/strictyaml"

// removedSettings maps the paths of removed settings to their replacements. If you remove a
// setting, add a line here. Old files then remain valid, and a warning explains what to do. Unsafe
// is set for settings that limit something or give consent, because ignoring them would be unsafe.
var removedSettings = map[string]strictyaml.Retired{
	"upstreams[].native":         {Remedy: "requests of every dialect are translated for every engine; delete it"},
	"engines[].native":           {Remedy: "requests of every dialect are translated for every engine; delete it"},
	"issuers[].algorithms":       {Remedy: "the issuer's keys decide: each verifies tokens of its own algorithm only (ES256, RS256, EdDSA); delete it, and remove keys that must not sign from the issuer's set", Unsafe: true},
	"tracing.sample":             {Remedy: "set the variables OTEL_TRACES_SAMPLER=parentbased_traceidratio and OTEL_TRACES_SAMPLER_ARG to the share, such as 0.1"},
	"engines[].load[].format":    {Remedy: "the edge recognises JSON and Prometheus text by the page; delete it"},
	"engines[].reasoning.effort": {Remedy: "the effort is sent as reasoning_effort; delete it"},
	"engines[].system_messages":  {Remedy: "write system_messages at the models"},
	"models[].limits":            {Remedy: "bodies are bounded by limits of the file and of keys: write request_body and upload_body there", Unsafe: true},
	"models[].adjacent_turns":    {Remedy: "the edge joins such turns for an engine that refuses them; to join them always, write adjacent_turns: joined in a profile of your own (engines)"},
}
