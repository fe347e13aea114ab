// Package residency decides whose turn it is at an engine that loads models on demand and keeps
// only a few of them in memory (Ollama, llama.cpp's router, LM Studio).
//
// Such an engine swaps models for every call that asks for a model that is not loaded. If calls
// alternate between two models, each call costs a load (ABAB), and some engines abort the running
// calls of the model that they unload. A Gate lets calls for resident models pass and makes others
// wait, so that the calls of a model run together (AABB).
//
// A model loses its place to a waiting model
//
//   - once it is idle: no call has run for as long as a load usually takes, 2 s at most. A longer
//     wait for its next call would cost more than the swap. A shorter wait would cause a swap in
//     each pause of a client.
//   - once it has had its fair share, ten times as long as a load takes, within limits. Then it
//     takes no new call, and another model gets the place when the last call has ended. A running
//     call is never cut.
//
// The model whose calls have waited longest is next. With two models, a call thus waits for at
// most one fair share and the calls running at its end, however many calls the other model has.
//
// A turn that no call takes up within a second is forfeited, because all of its waiting calls may
// have gone elsewhere. It then no longer blocks the other models.
//
// # Design
//
// A Gate does no I/O and has no goroutine, and the time is an argument. NextChange predicts
// changes that time alone brings, for the caller's timer. The gate derives the loaded models from
// the edge's own calls; Observe corrects that with the engine's list. Reading a gate takes its
// lock, so picks do it only for upstreams that have a gate.
package residency
