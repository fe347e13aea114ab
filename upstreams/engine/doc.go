// Package engine describes the inference engines: how to detect and address them, and how to read
// their pages.
//
// # Profiles
//
// A profile describes one kind of engine. The bundled profiles are the files profiles/*.yaml, in
// the format of config.Engine. Users may add profiles. Code checks the properties of a Profile
// (HasQuirk, TokenLimitMember, Path) and never compares its name. A profile inherits from the
// profile named by `like`, and ultimately from the generic profile. Variants are detected
// automatically. For example, an engine configured as `whisper` that was started with OpenAI's path
// becomes whisper-openai at its first probe. When a reload changes the profiles, the edge detects
// all engines again.
//
// To support another engine, add a file in profiles, an entry in detectionOrder, and recorded pages
// of that engine in testdata/engines.
//
// # Reading pages
//
// A PageReader reads the JSON fields (json_fields.go) and the Prometheus samples (load.go) that
// the profile describes. It fetches pages with an http1.GetPageFunc, which tests replace so that
// they need no sockets. Every number from an engine is clamped before use, and an invalid page is
// treated as missing. Pages are only hints, and the outcomes of calls decide.
//
// # Probes and trials
//
// A generation probe (generation.go) consists of the smallest useful request for a kind of model
// and a check of the response. Examples are one token of chat, an embedding of one word, and a
// transcription of one second of silence. This package builds the requests and judges the
// responses, and package upstreams decides when to probe.
//
// `penstock doctor --try` sends trials (trial.go, trials.go). A trial is a tiny chat call that
// tests a single feature that agents need. If the engine needs a flag for the feature, the result
// names the flag. The doctor's other checks do not make an engine generate.
//
// # Callers
//
// Package upstreams compiles the profiles of a configuration and detects engines, and its probes
// read the engines' pages. Package proxy uses a Profile to write requests and to interpret errors.
// `penstock doctor`, `penstock init` and an edge that starts without a configuration file use
// Detect, Discover and WriteConfig.
package engine
