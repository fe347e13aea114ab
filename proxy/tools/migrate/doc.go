// Package migrate converts the configuration of LiteLLM's proxy to a Penstock configuration.
// `penstock init --from` uses it.
//
// # Design
//
// The reader (litellm.go) fills in a plan, and write.go writes the plan as text. The reader removes
// each setting that it understands from the section of that setting. For each setting that remains,
// it adds a note which says that the setting has no counterpart, so unknown settings are also
// reported. Notes contain the names of settings, but never values.
//
// A reference to an environment variable stays a reference, except for client keys. Client keys are
// hashed even if they come from the environment, because our file contains only hashes. An engine's
// key in plain text is copied, because it must be sent to the engine.
package migrate
