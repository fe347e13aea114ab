// Package shadow sends copies of calls to another model (models[].shadow). It reads the answers,
// counts their tokens, and discards them.
//
// Shadows takes part in calls (package participant).
//
// # What a copy may not do
//
// A copy must not affect its call. The call is sent to its engine before the copy starts. The copy
// runs on a separate goroutine, and shares no bytes with the call. The call's goroutine only hashes
// the beginning of the conversation, acquires a slot and copies the body.
//
// A copy gets a slot only if all of the following are true:
//
//   - The slot is free immediately, and is not part of the model's reserve.
//   - The upstream is up, its breaker is closed, and less than half of its slots are in use.
//   - No call is waiting for the model.
//
// A copy never queues, and never wakes an engine. If its engine rejects it, the copy is sent at
// most once more, with a change after which the engine may accept it (RequestChangeStore).
//
// A copy is canceled if the client disconnects before the call is answered. After the call has been
// answered, the copy continues, so that slower engines are also measured. A drain cancels all
// copies immediately.
//
// The memory of a copy counts like that of a call: its body against limits.body_memory, and its
// response against limits.reply_memory. A copy is not charged to a key, and does not appear in the
// ledger or the usage. Its failures appear on the status page, but do not affect the breaker, the
// health of the upstream or package poison. Its time to the first token updates the measured speed
// of the engine, just as the time of a call does.
//
// The key's consent applies to the copy: the prompt goes only to external upstreams that the key
// lists. The key does not need access to the shadow's model, because the client receives no answer
// from that model.
//
// # Design
//
// If the dialect of a call is translated to chat, the chat request is copied. The copy decodes the
// chat request again, because a codec belongs to the goroutine of one call. As with arms, a hash
// selects the conversations to copy. Therefore, either all turns of a conversation are copied, or
// none are.
package shadow
