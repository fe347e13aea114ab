// Package audio holds the rules for the two audio endpoints: what a speech request and a
// transcription form may contain, what the engine gets instead, and the content types of the
// answers.
//
// # Speech
//
// Speech is a JSON request. Besides the model, input must be a string that is not empty, voice a
// string, speed between 0.25 and 4, and response_format one of wav, mp3, flac, opus, pcm and aac.
// The contract does not list aac, and a strict edge refuses it. Engines differ in their default
// response_format, so wav is sent when the client names none. Everything else is passed on
// unchanged, except a stream_format of sse, which the contract does not list either. An engine that
// supports events is asked for events if the client wants pcm. Otherwise stream_format is omitted,
// and the edge wraps the audio in events (see forward.Stream). It does so for wav because the
// events that engines send lack the file's header.
//
// # Transcriptions
//
// Transcription reads the form's fields in the order in which they arrive, because the file streams
// through and may come at any position. Each rule is applied as soon as its fields are known. End
// applies the remaining rules.
//
//   - file and model are required exactly once. No other file is accepted.
//   - response_format is json, text, srt, verbose_json or vtt; json is sent when the client
//     specifies none.
//   - timestamp_granularities, with brackets or without, is word or segment, any number of times,
//     and only with verbose_json (both spellings are sent with brackets, because engines read that
//     one).
//   - temperature is a number from 0 to 1. language and prompt are text. Empty optional fields
//     count as absent: web forms send them.
//   - known_speaker_references are data URLs: an engine would fetch any other URL.
//   - stream is true or false; this package does not know whether the engine supports it.
//   - Unknown fields are passed on unchanged, like unknown members of a JSON request: engines have
//     their own options. Fields that would steer an engine are refused.
package audio
