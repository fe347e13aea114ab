// Package residency decides whose turn it is at an engine that loads models on demand and keeps
// only a few of them in memory (Ollama, llama.cpp's router, LM Studio).
//
// Such an engine swaps models for every call that asks for another one. Two models in turn cost a
// load for each call (ABAB), and some engines abort the work that runs in the model they unload. A
// Gate lets the calls of resident models pass and keeps those of others waiting, so that the calls
// of a model run together (AABB).
//
// A model loses its place to one that waits
//
//   - once it is idle: no call has run for as long as a load usually takes, 2 s at most. To wait
//     longer for its next call would cost more than the swap, and to wait for less would swap in
//     each pause of a client.
//   - once it has had its fair share, ten times as long as a load takes, within limits. Then it
//     takes no new call, and the others get the place when its last call has ended. A running call
//     is never cut.
//
// The model whose calls have waited longest is next. So with two models a call waits for at most
// one fair share and the calls that run at its end, however many calls there are for the other.
//
// A turn that is not taken up within a second is forfeited: those who waited may all have been sent
// elsewhere. Nothing then keeps the others out.
//
// # Design
//
// A Gate does no I/O and has no goroutine, and the time is an argument. What changes by time alone
// is foretold by NextChange, for the caller's timer. The gate counts what the edge itself has
// asked the engine for; Observe corrects that by what the engine lists as loaded. Reading one takes
// its lock: a pick does it only where an upstream has a gate.
package residency
