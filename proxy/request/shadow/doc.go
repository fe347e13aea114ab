// Package shadow sends copies of calls to another model's engines (models[].shadow). It reads and
// counts the answers, then discards them.
//
// Shadows takes part in calls (package participant).
//
// # What a copy may not do
//
// A copy must not affect the call. The edge sends the request to the call's own engine before it
// does anything for a copy. The copy runs on its own goroutine, with its own bytes. The call's
// goroutine only hashes the start of the conversation, takes a slot and copies the body.
//
// A copy gets only a slot that is free at once, beyond the model's reserve. The upstream must be
// up, its breaker closed and less than half of its slots taken, and no call may be waiting for the
// model. A copy does not wait in a queue and does not wake an engine. Like a call, it is sent again
// only once, changed so that its engine accepts it (Changes).
//
// A copy ends when its client leaves: the call's attempt.Abort ends the copy's. After the call has
// been answered the copy continues, so that slower engines are measured as well. A drain ends all
// copies at once.
//
// A copy's memory counts like a call's: the body counts against limits.body_memory, and the reply
// against limits.reply_memory. A copy is charged to no key, and appears neither in the ledger nor
// in the usage. Its failures are recorded for the status page, but not for the breaker, health and
// poison. Its first tokens update the measured speeds of engines, like those of calls.
//
// The consent of the call's key applies: a prompt goes only to those external upstreams that the
// key has listed. The key needs no right to the other model, because it receives no answer from
// that model.
//
// # Design
//
// A call in any dialect that is chat underneath is copied as its chat request. The copy is decoded
// anew, because a codec belongs to one call and its goroutine. As with arms, a hash decides which
// conversations are copied, so either all turns of a conversation are copied or none are.
package shadow
