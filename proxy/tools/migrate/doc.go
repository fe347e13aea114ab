// Package migrate converts the configuration of LiteLLM's proxy to a Penstock configuration.
// `penstock init --from` uses it.
//
// # Design
//
// The reader (litellm.go) fills in a plan, and write.go writes the plan as text. The reader takes
// each setting that it understands out of its section. For each remaining setting, it adds a note
// that says that the setting has no counterpart. Unknown settings are therefore also reported.
// Notes contain the names of settings, but never values.
//
// A reference to an environment variable stays a reference, except for client keys. Client keys are
// hashed even if they come from the environment, because our file contains only hashes. An engine's
// key in plain text is copied, because it must be sent to the engine.
package migrate
