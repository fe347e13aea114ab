// Package engine knows the inference engines: how to recognise, query and address them, and what
// their pages mean.
//
// # Engines are data
//
// The edge's knowledge of an engine is a profile: profiles/*.yaml, in the format of config.Engine.
// Users may add their own. Code asks a Profile about a property (Has, TokenLimitMember, Path),
// never about its name. A profile inherits from the profile named in its `like`, and finally from
// the generic profile. Variants are detected automatically: an upstream that is configured as
// `whisper`, but was started with OpenAI's path, becomes whisper-openai at its first probe. If a
// reload changes the profiles, upstreams are recognised anew.
//
// To support another engine, add a file in profiles, an entry in detectionOrder, and an archive of
// the engine's pages in testdata/engines.
//
// # Reading pages
//
// A Reader reads what the profile describes: fields of JSON pages (json_fields.go) and samples of
// Prometheus text (load.go). It gets pages from an http1.GetPage, which tests replace to avoid
// sockets. Every number from an engine is bounded before use, and an invalid page counts as
// missing, because pages are only hints and calls decide.
//
// # Does it generate?
//
// A generation probe (generation.go) is the smallest request for a kind of model, together with a
// check of the answer: one token of chat, an embedding of one word, a second of silence to
// transcribe. This package defines what to send and how to judge the answer; upstreams decides when
// a probe is due.
//
// Trials (trial.go, trials.go) are what `penstock doctor --try` sends: tiny chat calls, each of
// which tests one thing that agents need. If the engine lacks a flag, the result names the flag.
// Nothing else in the doctor makes an engine generate.
//
// # Who calls what
//
// upstreams compiles the profiles of a configuration, recognises engines and reads their pages in
// its probes; proxy asks a Profile how to write a request and what an error means; `penstock
// doctor`, `penstock init` and a start without a file use Detect, Discover and WriteConfig.
package engine
