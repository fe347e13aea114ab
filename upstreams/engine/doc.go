// Package engine knows the inference engines: how one is recognised, asked and spoken to, and what
// its pages mean.
//
// # Engines are data
//
// What the edge knows of an engine is a profile: profiles/*.yaml, in the form of config.Engine, to
// which users may add their own. Code asks a Profile about a property (Has, TokenLimitMember,
// Path), never for a name. A profile starts from the one it is `like`, at last from the generic
// one, and its variants are found by themselves: an upstream that is configured as `whisper` and
// was started with OpenAI's path becomes whisper-openai at its first probe. A reload may bring
// other profiles; upstreams are then recognised anew.
//
// Adding an engine is a file in profiles, a place in detectionOrder, and an archive of its pages in
// testdata/engines.
//
// # Reading pages
//
// A Reader reads what the profile describes: fields of JSON pages (json_fields.go) and samples of
// Prometheus text (load.go). It gets pages from an http1.GetPage, which has no socket in tests.
// Every number of an engine is bounded before it is believed, and a page that makes no sense is one
// that is missing: these pages are advice, and calls decide.
//
// # Does it generate?
//
// A generation probe (generation.go) is the smallest work of a kind of model, with a judgement of
// its answer: one token of chat, an embedding of one word, a second of silence to transcribe. This
// is what it sends and what an answer is worth; upstreams decides when one is due.
//
// Trials (trial.go, trials.go) are what `penstock doctor --try` sends: tiny chat calls, each for
// one thing that agents need, with the flag to start the engine with where it is missing.
// Nothing else of the doctor generates.
//
// # Who calls what
//
// upstreams compiles the profiles of a configuration, recognises engines and reads their pages in
// its probes; proxy asks a Profile how to write a request and what an error means; `penstock
// doctor`, `penstock init` and a start without a file use Detect, Discover and WriteConfig.
package engine
