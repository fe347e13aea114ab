// Package residency schedules the models of an engine that loads models on demand and keeps only a
// few of them in memory (Ollama, llama.cpp's router, LM Studio).
//
// Such an engine swaps models whenever a call requests a model that is not loaded. If calls
// alternate between two models (ABAB), the engine has to load a model for every call, and some
// engines abort running calls of the model that they unload. A Gate admits calls for resident
// models and makes other calls wait, so that the calls of a model run together (AABB).
//
// A resident model loses its place to a waiting model in two cases:
//
//   - It is idle: it has had no running call for the usual duration of a load, or for 2 s if that
//     is shorter. A longer wait for the next call would cost more than a swap. A shorter wait would
//     cause a swap in every pause of a client.
//   - It has had its fair share: ten times the duration of a load, within limits. It then gets no
//     new calls, and another model gets the place when this model's last call has ended. Running
//     calls are never aborted.
//
// The model whose call has waited longest gets the place. If there are two models, a call
// therefore waits at most for one fair share and for the calls that are running when that share
// ends. The number of calls for the other model does not matter.
//
// A model forfeits a turn if none of its calls uses it within a second, because its waiting calls
// may have gone to other engines.
//
// # Design
//
// A Gate does no I/O and starts no goroutines, and its methods get the time as an argument.
// TimeUntilNextChange returns the time at which the turns may change without any call, for the caller's
// timer. The gate infers from the edge's calls which models are loaded, and UpdateResidents
// corrects this with the engine's list. Reading a gate's state requires a lock, so routing reads it
// only for upstreams that have a gate.
package residency
