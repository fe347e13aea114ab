// Package translate holds what the dialects have in common. Each dialect is a package below this
// one: chat, messages, responses, audio, forward. All of them turn bytes into bytes and know
// neither HTTP nor files nor the clock, and none of them knows the edge, which picks a dialect by
// the endpoint and drives it through the interfaces of codec.go:
//
//	dialect    Stream                     NativeReader
//	chat       answer.Stream              (engines speak it)
//	messages   messages.Stream            messages.Native
//	responses  responses.Stream           responses.Native
//	audio      forward.Stream             (forwarded)
//	forward    forward.Stream             (forwarded)
//
// An engine's answer is read as chat whatever dialect it comes in: a NativeReader turns an engine's
// own Messages or Responses into chat chunks. So usage, tool calls, finish reasons and errors have
// one reader, and every client sees the same tool calls.
//
// A Stream may get the events of several engines: it is restarted before the answer has begun, and
// resumed in its midst. What it has written stays true: ids, numbers, open blocks.
//
// The types here are what the edge reads of any answer: Usage, the counts; Markup, the sign that an
// engine lacks a parser; BadAnswer, the error of an answer that breaks its dialect.
package translate
