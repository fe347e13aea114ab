// Package profile describes how engines differ on the wire. Their headers and behaviour are data,
// and it also contains their error messages.
//
// The data is in engines.json. Each value was observed on the engine (llama.cpp's server, Ollama,
// whisper.cpp's server), read in its source (vLLM, SGLang, TensorRT-LLM, Text Generation Inference,
// speaches, Kokoro-FastAPI), or found in documentation and reports (LM Studio). A new engine needs
// a row in engines.json and a file in package pages. If its chat responses differ, it also needs a
// case in chat.txtar there. A variant is an engine in a different mode. The member Of in its row
// names the engine whose family the variant shares, including its chunks and errors.
//
// Package sim decides when to answer. A profile neither orders events nor waits. A profile appends
// bytes and returns errors as values. An error can therefore be sent as a response or as an event
// in a stream.
package profile
