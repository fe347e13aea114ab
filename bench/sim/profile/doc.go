// Package profile describes how engines differ on the wire. It describes headers and behaviour as
// data, and contains the engines' error messages.
//
// The data is in engines.json. Each value was observed on the engine (llama.cpp's server, Ollama,
// whisper.cpp's server), read in its source (vLLM, SGLang, TensorRT-LLM, Text Generation Inference,
// speaches, Kokoro-FastAPI), or found in documentation and reports (LM Studio). A new engine needs
// a row in engines.json and a file in package pages. If its chat responses differ from those of
// other engines, it also needs a case in chat.txtar in package pages. A variant is an engine in a
// different mode. The Of field in the variant's row names the engine that it is a variant of. The
// variant shares the engine's family, including its chunks and errors.
//
// Package sim decides when to answer. A profile neither orders events nor waits. It appends bytes
// and returns errors as values. An error can therefore be sent as a response or as an event in a
// stream.
package profile
