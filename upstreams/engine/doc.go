// Package engine knows the inference engines: how to recognise them, query them and speak to them,
// and what their pages mean.
//
// # Engines are data
//
// The edge's knowledge of an engine is a profile: profiles/*.yaml, in the form of config.Engine.
// Users may add their own. Code asks a Profile about a property (Has, TokenLimitMember, Path),
// never about a name. A profile starts from the one it is `like`, and finally from the generic one.
// Variants are detected automatically: an upstream that is configured as `whisper` and was started
// with OpenAI's path becomes whisper-openai at its first probe. A reload may bring other profiles;
// upstreams are then recognised anew.
//
// To add an engine, add a file in profiles, a place in detectionOrder, and an archive of its pages
// in testdata/engines.
//
// # Reading pages
//
// A Reader reads what the profile describes: fields of JSON pages (json_fields.go) and samples of
// Prometheus text (load.go). It gets pages from an http1.GetPage, which has no socket in tests.
// Every number from an engine is bounded before it is used, and a nonsensical page counts as
// missing: these pages are advice, and calls decide.
//
// # Does it generate?
//
// A generation probe (generation.go) is the smallest work for a kind of model, with a check of its
// answer: one token of chat, an embedding of one word, a second of silence to transcribe. This
// package defines what to send and how to judge the answer; upstreams decides when a probe is due.
//
// Trials (trial.go, trials.go) are what `penstock doctor --try` sends: tiny chat calls, each for
// one thing that agents need, with the flag to start the engine with if it is missing. Nothing else
// in the doctor generates.
//
// # Who calls what
//
// upstreams compiles the profiles of a configuration, recognises engines and reads their pages in
// its probes; proxy asks a Profile how to write a request and what an error means; `penstock
// doctor`, `penstock init` and a start without a file use Detect, Discover and WriteConfig.
package engine
