// Package agent implements `penstock agent`: it writes a coding agent's configuration for a running
// edge.
//
// # Design
//
// The edge's catalog holds what an agent must know about a model: its context length, its longest
// answer, its efforts, and whether it accepts images. Without these facts an agent guesses,
// compacts too late, and sends requests that the engine refuses.
//
// Each agent gets separate files beside its own configuration, which stays unchanged: each of these
// agents can be started with an additional file. Therefore nothing has to be merged, and an agent
// that is started without the file behaves as before. An existing file that differs is kept beside
// the new one, under an unused name. A file that is not regular is left alone: reading a pipe could
// wait forever.
//
// A key is never written. The files name the environment variable that holds it, and a name that
// may be the key itself is refused.
//
// The wanted model may be an alias, which the edge resolves. Only Codex then gets the id, because
// it uses its own catalog, which lists ids.
package agent
