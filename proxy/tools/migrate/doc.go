// Package migrate converts the configuration of LiteLLM's proxy to Penstock's. `penstock init
// --from` calls it.
//
// # Design
//
// The reader of the other file (litellm.go) fills a plan, and write.go writes the plan as text. The
// reader removes each setting that it understands from its section. Each remaining setting has no
// counterpart and becomes a note, so unforeseen settings are also reported. Notes name settings,
// never their values.
//
// Secrets are handled as follows. A variable stays a variable. A client key is hashed, even one
// from the environment, because our file holds only hashes. An engine's key in plain text is
// copied, because the engine must receive it.
package migrate
