// Package residency decides whose turn it is at an engine that loads models on demand and keeps
// only a few of them in memory (Ollama, llama.cpp's router, LM Studio).
//
// Such an engine swaps models for every call that asks for another one. Two alternating models cost
// a load for each call (ABAB), and some engines abort the running work of the model they unload. A
// Gate lets the calls of resident models pass and makes those of others wait, so that the calls of
// a model run together (AABB).
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
// one fair share and the calls running at its end, however many calls there are for the other.
//
// A turn that is not taken up within a second is forfeited, because its waiting calls may all have
// gone elsewhere. The others are then no longer kept out.
//
// # Design
//
// A Gate does no I/O and has no goroutine, and the time is an argument. NextChange predicts changes
// that come with time alone, for the caller's timer. The gate counts what the edge itself has asked
// of the engine; Observe corrects that with what the engine lists as loaded. Reading a gate takes
// its lock: a pick does so only if the upstream has a gate.
package residency
