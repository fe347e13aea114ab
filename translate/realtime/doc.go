// Package realtime translates the events of realtime transcription sessions between OpenAI's
// protocol, which clients speak, and the protocols of engines. It knows neither connections nor
// calls: messages come in and go out as bytes.
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
// (transcription_session.update, whose members are flat). The audio is PCM of 16 bits, mono, at 24
// kHz (RealtimeAudioFormats); one append has at most 15 MiB.
//
// vLLM's events: vllm/entrypoints/openai/realtime, api_router.py, connection.py and protocol.py.
// After its session.created it takes session.update with the model, input_audio_buffer.commit (which
// starts a transcription that reads the audio as it arrives), input_audio_buffer.append, and
// input_audio_buffer.commit with final (which ends the audio). It sends transcription.delta,
// transcription.done (text and usage) and error (a text and a code). The audio is PCM of 16 bits,
// mono, at 16 kHz. It drops audio that arrives between the end of the audio and transcription.done,
// so that audio has to wait (Talk.Waits). It has neither voice detection nor clear.
//
// speaches: src/speaches/routers/realtime_ws.py, src/speaches/realtime and
// src/speaches/types/realtime.py. It speaks OpenAI's protocol of the beta. The model is in the query
// with intent=transcription. It detects speech itself, and its session.update takes turn_detection
// only with all members and never null, so voice detection cannot be turned off.
//
// # Design
//
// A client that speaks the current protocol or that of the beta gets the same session object: it has
// the members of both. What an engine cannot do is visible there: for vLLM, turn_detection is null,
// so the client commits. For an engine with OpenAI's events, its events pass as they are, but only
// the types of a transcription.
//
// A transcription (an item) of vLLM begins with its first audio and ends with the client's commit.
// A clear ends it as well, and its text is dropped.
package realtime
