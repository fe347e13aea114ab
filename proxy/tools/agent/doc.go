// Package agent implements `penstock agent`, which configures a coding agent for a running edge.
//
// # Design
//
// The catalog of the edge contains what an agent must know about a model: its context length, the
// maximum length of an answer, its efforts, and whether it accepts images. An agent without these
// values guesses, compacts too late, and sends requests that the engine refuses.
//
// Each of these agents can be started with additional files, so the command writes separate files
// and does not change the agent's existing configuration. No files have to be merged. If the agent
// is started without the additional files, it behaves as before. An existing file with other
// content is saved under another name. If a path does not lead to a regular file, this is an error,
// because reading a pipe could block.
//
// A key is never written. The files contain the name of an environment variable. A name that may be
// the key itself is refused.
package agent
