// Package agent implements `penstock agent`, which configures a coding agent for a running edge.
//
// # Design
//
// The edge's catalog contains what an agent must know about a model: the context length, the
// maximum length of an answer, the efforts, and whether the model accepts images. An agent that
// does not know these values guesses them, compacts too late, and sends requests that the engine
// rejects.
//
// Each of these agents can be started with additional files, so the command writes separate files
// and leaves the agent's existing configuration unchanged. No files need to be merged. If the agent
// is started without the additional files, it works as before. If a file with different content
// exists, the command saves that file under another name. If the path exists but is not a regular
// file, the command fails, because reading a pipe could block.
//
// The command never writes a key. The files contain the name of an environment variable instead. A
// name that might itself be a key is rejected.
package agent
