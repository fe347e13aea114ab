// Package profile is what tells one engine from another on the wire: its headers and habits as
// data, and the words of its errors.
//
// The data is engines.json. Each value was seen on that engine (llama.cpp's server, Ollama,
// whisper.cpp's server), or read in its source (vLLM, SGLang, TensorRT-LLM, Text Generation
// Inference, speaches, Kokoro-FastAPI), or in its documentation and reports about it (LM Studio).
// A new engine is a row there, a file of package pages, and a case in chat.txtar there where it
// differs from the others. A variant is an engine in another mode: a row that says what it is Of;
// it keeps the family, and with it chunks and errors.
//
// A profile decides no order of events and waits for nothing: who answers when is the engine's part
// of the simulator. It appends bytes and returns errors as values, so that an error can be sent as
// a reply or as an event of a stream.
package profile
