// Package shadow sends copies of calls to another model's engines, reads what these answer, counts
// it and throws it away (models[].shadow).
//
// # What a copy may not do
//
// The call that is copied must not notice. Its own engine has been sent the request before anything
// is done for a copy, and the copy runs on a goroutine of its own, with its own bytes. What the
// caller does is to hash the conversation's beginning, to take a slot and to copy the body.
//
// A copy takes a slot that is free at once, beside the model's reserve, of an upstream that is up,
// whose breaker is closed and of whose slots less than half are taken, while no call waits for the
// model. It waits in no queue, wakes no engine and is not sent again, but for once
// in a form that its engine takes, as calls are (Changes).
//
// It ends with its client: the call's attempt.Abort ends the copy's. After the call has been
// answered the copy goes on, because a slower engine is to be measured, too. A drain ends all
// copies at once.
//
// Its memory counts as that of calls does: the body in limits.body_memory, the reply in
// limits.reply_memory. It is charged to no key, and neither the ledger nor the usage knows it. Its
// failures are noted for the status page and say nothing to the breaker, health and poison. Its
// first tokens teach the speeds of engines, as those of calls do.
//
// The consent of the call's key holds: a prompt goes to no external upstream that the key has not
// listed. The key need not be allowed to use the other model, because it gets nothing of it.
//
// # Design
//
// All dialects that are chat underneath are copied as the chat request that they amount to. It is
// decoded anew: a codec belongs to one call and its goroutine. Which conversations are copied
// follows from a hash, as with arms, so all of their turns are.
package shadow
