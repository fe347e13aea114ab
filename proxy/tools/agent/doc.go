// Package agent implements `penstock agent`, which writes a coding agent's configuration for a
// running edge.
//
// # Design
//
// The edge's catalog has the facts that an agent must know about a model: its context length, its
// longest answer, its efforts, and whether it accepts images. Without these facts an agent guesses,
// compacts too late, and sends requests that the engine refuses.
//
// Each agent gets separate files next to its own configuration, because each of these agents can be
// started with an additional file. The agent's own configuration stays unchanged. Thus no files
// have to be merged, and an agent that is started without the additional file behaves as before. An
// existing file that differs is kept next to the new one, under an unused name. A file that is not
// regular stays as it is, because reading a pipe could block forever.
//
// A key is never written. The files name the environment variable that holds it, and a name that
// may be the key itself is refused.
//
// The wanted model may be an alias, which the edge resolves. Only Codex gets the id instead,
// because Codex uses its own catalog, which lists ids.
package agent
