// Package profile holds the differences between engines on the wire: their headers and habits as
// data, and the words of their errors.
//
// The data is engines.json. Each value was seen on that engine (llama.cpp's server, Ollama,
// whisper.cpp's server), or read in its source (vLLM, SGLang, TensorRT-LLM, Text Generation
// Inference, speaches, Kokoro-FastAPI), or in its documentation and reports about it (LM Studio). A
// new engine takes a row there, a file of package pages, and a case in its chat.txtar if it differs
// from the others. A variant is an engine in another mode: a row with a member Of, which keeps the
// family and therefore its chunks and errors.
//
// A profile neither decides the order of events nor waits for anything: the engine part of the
// simulator decides when to answer. It appends bytes and returns errors as values, so that an error
// can be sent as a reply or as an event of a stream.
package profile
