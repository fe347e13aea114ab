// Package realtime translates the events of realtime transcription sessions between OpenAI's
// protocol, which clients speak, and the protocols of engines. It depends on neither connections
// nor calls: messages go in and out as bytes.
//
//	client.go    ParseClient: a client's message
//	settings.go  Settings: what session.update says, and the session object in answers
//	talk.go      Talk: the state of a session, and the client's events
//	engine.go    an engine's events as the client's
//	audio.go     Audio: the client's audio in the form of the engine
//	resample.go  from 24 to 16 kHz
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
// After its session.created vLLM accepts session.update with the model, input_audio_buffer.commit
// (which starts a transcription that reads the audio as it arrives), input_audio_buffer.append, and
// input_audio_buffer.commit with final (which ends the audio). vLLM sends transcription.delta,
// transcription.done (text and usage) and error (a text and a code). The audio is 16-bit mono PCM
// at 16 kHz. Audio that arrives between the end of the audio and transcription.done is dropped by
// vLLM, so the edge holds it back (Talk.Waits). vLLM has neither voice detection nor clear.
//
// speaches: src/speaches/routers/realtime_ws.py, src/speaches/realtime and
// src/speaches/types/realtime.py. It speaks the beta version of OpenAI's protocol. The model is in
// the query, with intent=transcription. speaches detects speech itself. Its session.update accepts
// turn_detection only with all members and never null, so voice detection cannot be turned off.
//
// # Design
//
// Clients of the current protocol and of the beta get the same session object, which has the
// members of both. It shows what an engine cannot do: for vLLM, turn_detection is null, so the
// client commits. An engine's events in OpenAI's protocol are passed on unchanged, but only the
// types that belong to a transcription.
//
// A transcription (an item) by vLLM starts with its first audio and ends with the client's commit.
// A clear also ends it, and its text is then dropped.
package realtime
