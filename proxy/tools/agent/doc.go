// Package agent is `penstock agent`: it writes the configuration with which a coding agent works
// through a running edge.
//
// # Design
//
// What an agent has to know of a model is in the edge's catalog: its context, its longest answer,
// its efforts, whether it takes images. An agent that is not told guesses, compacts too late and
// asks for what the engine refuses.
//
// Each agent gets files of its own beside its own configuration, which stays as it is: every one of
// these programs can be started with a further file. So there is nothing to merge, and whoever
// starts it as before has what they had before. A file that is there and differs is kept beside the
// new one, under a name that nothing has yet. What is no regular file is left alone: to read a pipe
// would be to wait.
//
// A key is never written. The files name the environment variable that holds it, and a name that
// may be the key itself is refused.
//
// A model may be wanted by an alias, which the edge resolves. Codex alone gets the id then: it
// works from its catalog, which lists ids.
package agent
