// Package migrate turns the configuration of LiteLLM's proxy into one of ours. It is what
// `penstock init --from` calls.
//
// # Design
//
// The reader of the other form (litellm.go) fills a plan, and the plan is written as text
// (write.go). The reader takes each setting that it understands out of its section. What is left
// has no counterpart and becomes a note, so a setting that nobody thought of is reported, too.
// Notes name settings, never their values.
//
// Secrets: a variable stays a variable. A key of clients is hashed, also one from the environment,
// because a hash is all that our file has. An engine's key that stands in the other file in plain
// is copied, because the engine has to be sent it.
package migrate
