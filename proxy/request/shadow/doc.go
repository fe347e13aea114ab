// Package shadow sends copies of calls to another model's engines. It reads and counts their
// answers and throws them away (models[].shadow).
//
// # What a copy may not do
//
// The copied call must not notice. The edge sends the request to the call's own engine before it
// does anything for a copy. The copy runs on a goroutine of its own, with its own bytes. The caller
// only hashes the beginning of the conversation, takes a slot and copies the body.
//
// A copy takes only a slot that is free at once, beyond the model's reserve. The upstream must be
// up, its breaker closed and less than half of its slots taken, and no call may wait for the model.
// A copy waits in no queue and wakes no engine. It is sent again only once, in a form that its
// engine accepts, as calls are (Changes).
//
// A copy ends with its client: the call's attempt.Abort ends the copy's. After the call has been
// answered the copy continues, because a slower engine is to be measured, too. A drain ends all
// copies at once.
//
// Its memory counts like that of calls: the body in limits.body_memory, the reply in
// limits.reply_memory. It is charged to no key, and appears neither in the ledger nor in the usage.
// Its failures are recorded for the status page, but not for the breaker, health and poison. Its
// first tokens teach the speeds of engines, as those of calls do.
//
// The consent of the call's key applies: a prompt goes to no external upstream that the key has not
// listed. The key needs no right to the other model, because it gets nothing from it.
//
// # Design
//
// All dialects that are chat underneath are copied as their chat request. The copy is decoded anew,
// because a codec belongs to one call and its goroutine. As with arms, a hash decides which
// conversations are copied, so all turns of a conversation are copied or none.
package shadow
