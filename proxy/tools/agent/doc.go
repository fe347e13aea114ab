// Package agent is `penstock agent`: it writes a coding agent's configuration for a running edge.
//
// # Design
//
// The edge's catalog holds what an agent has to know of a model: its context, its longest answer,
// its efforts, whether it takes images. An agent without these facts guesses, compacts too late and
// asks for what the engine refuses.
//
// Each agent gets separate files beside its own configuration, which stays as it is: every one of
// these programs can be started with an additional file. So there is nothing to merge, and users
// who start the agent as before get what they had before. An existing file that differs is kept
// beside the new one, under an unused name. A file that is not regular is left alone: reading a
// pipe could wait forever.
//
// A key is never written. The files name the environment variable that holds it, and a name that
// may be the key itself is refused.
//
// The wanted model may be an alias, which the edge resolves. Only Codex gets the id then: it works
// from its catalog, which lists ids.
package agent
