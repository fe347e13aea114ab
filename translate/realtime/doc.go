// Package realtime translates the events of realtime transcription sessions between OpenAI's
// protocol, which clients speak, and the protocols of engines.
//
//	client.go         ParseClient: a client's message
//	settings.go       Settings: the settings of session.update, and the session object for the client
//	session_state.go  SessionState: the state of a session, and the client's events
//	engine.go         converts an engine's events to the client's
//	audio.go          AudioConverter: converts the client's audio to the engine's format
//	resample.go       converts audio from 24 to 16 kHz
//
// # Sources
//
// OpenAI's events: openai-python, src/openai/types/realtime (session.update with
// RealtimeTranscriptionSessionCreateRequest, input_audio_buffer.*,
// conversation.item.input_audio_transcription.*, error) and src/openai/types/beta/realtime
// (transcription_session.update, whose members are flat). The audio is 16-bit mono PCM at 24 kHz
// (RealtimeAudioFormats). One append has at most 15 MiB.
//
// vLLM's events: vllm/entrypoints/openai/realtime, api_router.py, connection.py and protocol.py.
// vLLM first sends session.created. It then accepts session.update with the model, and
// input_audio_buffer.commit, which starts a transcription that reads the audio as it arrives. The
// audio follows in input_audio_buffer.append, and an input_audio_buffer.commit with final ends it.
// vLLM sends transcription.delta, transcription.done (text and usage) and error (message and code).
// The audio is 16-bit mono PCM at 16 kHz. vLLM drops audio that arrives between the final commit
// and transcription.done, so the edge holds back such audio (SessionState.MustHoldAudio). vLLM
// supports neither voice detection nor clear.
//
// speaches: src/speaches/routers/realtime_ws.py, src/speaches/realtime and
// src/speaches/types/realtime.py. speaches uses the beta version of OpenAI's protocol. The model is
// in the query, with intent=transcription. speaches has voice detection. Its session.update
// requires all members of turn_detection and rejects null, so voice detection cannot be disabled.
//
// # Design
//
// Clients of the current protocol and of the beta receive the same session object. The object
// contains the members of both protocols and shows what the engine supports: for vLLM,
// turn_detection is null, so the client must commit. If an engine speaks OpenAI's protocol, its
// transcription events are passed on unchanged and all other events are dropped.
//
// With vLLM, a transcription (an item) starts with its first audio and ends with the client's
// commit. If the client sends clear instead, the edge ends the item and drops its text.
package realtime
