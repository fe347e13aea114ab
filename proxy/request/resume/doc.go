// Package resume lets a stream survive the loss of its engine. It stores the part of the answer
// that the client has received, so that another engine can continue it (models[].retry.resume).
//
// A Stream wraps the codec of the endpoint. Each event is parsed twice: by the codec and by the
// Stream. Streams that cannot be resumed have no additional cost.
//
// # What can be resumed
//
// Only a single answer in plain text can be resumed. These answers cannot be resumed:
//
//   - An answer with more than one choice, with a schema or a grammar, or with token-level reports
//     (chat.Continues).
//   - An answer that has started to call a tool, because no engine accepts a partial tool call.
//   - An answer that so far consists only of reasoning.
//
// Reasoning is sent to the next engine, which must be able to read reasoning from the history. The
// last character of the stored text is always complete, because the reader does not return
// incomplete characters.
//
// The stored text and the request count against limits.body_memory. If that memory is full or more
// than half used, both are released to make room for new requests. The stream then continues but
// can no longer be resumed.
package resume
