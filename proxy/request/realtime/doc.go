// Package realtime serves GET /v1/realtime, which provides sessions over WebSocket that transcribe
// speech while it is spoken. Clients use OpenAI's protocol, which package translate/realtime
// translates for the engines.
//
// # A session is a call
//
// From its admission to its end, a session is one call (call.Dialogue). Like any call, it has a
// key, limits, hooks, a queue, a slot in the audio pool, metrics, a log line and a row on the
// status page. If the query names the model, the call is admitted and connected to an engine before
// the upgrade, so that an error has an HTTP status. Otherwise, the upgrade comes first, and the
// first session.update message names the model. This message must arrive within modelTimeout, and
// earlier messages must be small. If the call is then rejected, the client gets an error event and
// a close frame.
//
// For each transcript, the key is charged the tokens that the engine counted. If the key then
// exceeds a limit, the session ends.
//
// Two goroutines run a session. One reads from the client and writes to the engine; the other reads
// from the engine and writes to the client. Each goroutine stores at most one message, so a client
// or an engine that does not read also stalls the opposite direction of the session. While vLLM
// would drop audio, the edge leaves the client's messages in the socket.
//
// If the engine is lost before the first audio was sent, another engine takes over. If the engine
// is lost later, the session fails, because the edge does not store audio.
//
// # Close codes
//
//	1000  the client has closed the connection; the session was idle (timeouts.idle, or 10 minutes)
//	      or has reached its maximum duration (timeouts.total, or 60 minutes)
//	1001  the edge drains: after timeouts.drain, or immediately if the session has no model
//	1002, 1003, 1007  violations of the WebSocket protocol
//	1008  the call was refused, or its key was revoked
//	1009  a message is too large
//	1011  the engine was lost, or has kept silent although it owed text
//	1013  the call was refused, but may be repeated (429, 503); a transcript has exceeded the key's limits
//
// The edge sends an error event before it closes the connection, unless the client has closed the
// connection.
package realtime
