// Package migrate converts the configuration of LiteLLM's proxy to Penstock's. `penstock init
// --from` calls it.
//
// # Design
//
// The reader (litellm.go) fills a plan, and write.go writes the plan as text. The reader removes
// each setting that it understands from its section. For each setting that remains, the reader adds
// a note that it has no counterpart, so unknown settings are reported too. Notes contain names of
// settings, but never their values.
//
// A reference to an environment variable stays a reference, except for client keys. They are hashed
// even if they come from the environment, because our file contains only hashes. The plain-text key
// of an engine is copied, because the engine must receive it.
package migrate
