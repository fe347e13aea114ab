// Package translate holds what the dialects share. Each dialect is a package below this one: chat,
// messages, responses, audio, forward. All of them turn bytes into bytes and know neither HTTP nor
// files nor the clock. None of them knows the edge, which picks a dialect by the endpoint and
// drives it through the interfaces of codec.go:
//
//	chat       answer.Stream
//	messages   messages.Stream
//	responses  responses.Stream
//	audio      forward.Stream, as the engine sends it
//	forward    forward.Stream, as the engine sends it
//
// The edge speaks chat to engines, whatever the client's dialect. So usage, tool calls, finish
// reasons and errors have one reader, and every client sees the same tool calls.
//
// A Stream may receive the events of several engines: it is restarted before the answer has begun,
// and resumed in the middle of one. Everything that it has already written stays valid: ids,
// numbers, open blocks.
//
// The types here are what the edge reads from any answer: Usage, the counts; Markup, the sign that
// an engine lacks a parser; BadAnswer, the error of an answer that breaks its dialect.
package translate
