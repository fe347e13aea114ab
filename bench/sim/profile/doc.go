// Package profile describes how engines differ on the wire: their headers and behaviour as data,
// and their error messages.
//
// The data is engines.json. Each value was observed on that engine (llama.cpp's server, Ollama,
// whisper.cpp's server), or read in its source (vLLM, SGLang, TensorRT-LLM, Text Generation
// Inference, speaches, Kokoro-FastAPI), or in its documentation and reports about it (LM Studio). A
// new engine needs a row in engines.json, a file in package pages, and a case in chat.txtar there
// if its chat answers differ. A variant is an engine in another mode: a row with a member Of, which
// keeps the family and therefore its chunks and errors.
//
// A profile neither decides the order of events nor waits for anything: package sim decides when to
// answer. A profile appends bytes and returns errors as values, so that an error can be sent as a
// reply or as an event of a stream.
package profile
