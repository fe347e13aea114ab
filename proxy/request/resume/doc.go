// Package resume lets a stream survive the loss of its engine. It stores the part of the answer
// that the client has received, so that another engine can continue the answer
// (models[].retry.resume).
//
// A PartialAnswerRecorder wraps the endpoint's codec. Each event is parsed twice: by the codec and by the
// PartialAnswerRecorder. Streams that cannot be resumed incur no additional cost.
//
// # What can be resumed
//
// Only a single plain-text answer can be resumed. These answers cannot be resumed:
//
//   - An answer with multiple choices, with a schema or a grammar, or with token-level reports
//     (chat.IsResumable).
//   - An answer that has started to call a tool, because no engine accepts a partial tool call.
//   - An answer that consists only of reasoning so far.
//
// The next engine also gets the reasoning, so it must be able to read reasoning from the history.
// The stored text always ends with a complete character, because the reader does not return
// incomplete characters.
//
// The stored text and the request count against limits.body_memory. If more than half of that
// memory is in use, both the text and the request are released to make space for new requests. The
// stream then continues but can no longer be resumed.
package resume
