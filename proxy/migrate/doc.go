// Package migrate turns the configuration of another program into one of ours: LiteLLM's proxy and
// llama-swap. It is what `penstock init --from` calls.
//
// # Design
//
// A reader of the other form (litellm.go, llamaswap.go) fills a plan, and the plan is written as
// text (write.go). A reader takes each setting that it understands out of its section. What is left
// has no counterpart and becomes a note, so a setting that nobody thought of is reported, too.
// Notes name settings, never their values.
//
// Secrets: a variable stays a variable. A key of clients is hashed, also one from the environment,
// because a hash is all that our file has. An engine's key that stands in the other file in plain
// is copied, because the engine has to be sent it.
package migrate
