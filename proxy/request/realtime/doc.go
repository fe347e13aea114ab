// Package realtime serves GET /v1/realtime: sessions that transcribe speech while it is spoken, over
// WebSocket. Clients speak OpenAI's protocol; package translate/realtime translates it for engines.
//
//	sessions.go   Sessions: which clients may connect, and the sessions that are open
//	session.go    a session: reading the client
//	engine.go     its engine: reading the engine, and how the session ends
//	clocks.go     the clocks of a session
//	adopt.go      the library's client end of an engine's connection
//
// # A session is a call
//
// A session is one call (call.Dialogue) with its key, limits, hooks, queue, slot of the audio pool,
// metrics, log line and row on the status page, from its admission to its end. If the query names
// the model, the call is admitted and its engine found before the upgrade, so that a refusal has
// its HTTP status. Otherwise the upgrade comes first, and the first session.update names the model.
// It must arrive within modelTime, and earlier messages must be small. A refusal is then an error
// event and a close frame.
//
// A key is charged for each transcript as the engine counts it. A session whose key has then exceeded
// a limit ends.
//
// Two goroutines run a session. One reads the client and writes to the engine, the other reads the
// engine and writes to the client. Neither keeps more than one message, so a side that does not read
// stalls the other one. Audio that vLLM would drop waits in the client's socket.
//
// Until the first audio is sent, another engine can replace one that is lost. After that the
// session ends, because the edge keeps no audio.
//
// # Ends
//
//	1000  the client has closed; the session was idle (timeouts.idle, or 10 minutes) or has lasted
//	      its time (timeouts.total, or 60 minutes)
//	1001  the edge drains: after timeouts.drain, or at once while there is no model
//	1003, 1007, 1002  violations of the protocol of WebSocket
//	1008  the call was refused, or its key revoked
//	1009  a message is too large
//	1011  the engine was lost, or has kept silent although it owed text
//	1013  the call was refused, but may be repeated (429, 503); a transcript has exceeded the key's limits
//
// An error event precedes every end except those by the client.
package realtime
