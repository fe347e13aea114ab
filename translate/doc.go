// Package translate holds what the dialects share. Each dialect is a package below this one: chat,
// messages, responses, audio, forward. They all turn bytes into bytes, and depend on neither HTTP
// nor files nor the clock. None of them depends on the edge. The edge picks a dialect by the
// endpoint and drives it through the interfaces in codec.go:
//
//	chat       answer.Stream
//	messages   messages.Stream
//	responses  responses.Stream
//	audio      forward.Stream, as the engine sends it
//	forward    forward.Stream, as the engine sends it
//
// The edge speaks chat to engines, whatever the client's dialect. Thus only one package reads
// usage, tool calls, finish reasons and errors, and every client sees the same tool calls.
//
// A Stream may receive events from several engines: it is restarted if the answer has not started,
// and otherwise resumed in the middle. Everything that the Stream has already written stays valid:
// ids, numbers, open blocks.
//
// The types here hold what the edge reads from any answer: Usage holds the counts, Markup shows
// that an engine lacks a parser, and BadAnswer is the error for an answer that breaks its dialect.
package translate
