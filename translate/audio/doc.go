// Package audio implements the rules of the two audio endpoints. It checks speech requests and
// transcription forms, changes them for the engine, and determines the content types of the
// responses.
//
// # Speech
//
// The body of a speech request is JSON:
//
//   - input must be a string that is not empty.
//   - voice must be a string.
//   - speed must be between 0.25 and 4.
//   - response_format must be wav, mp3, flac, opus, pcm or aac. The contract does not list aac, so
//     a strict edge rejects it. Engines have different defaults, so the edge requests wav if the
//     client does not specify a format.
//   - stream_format may be sse. The contract does not list it, so a strict edge rejects it.
//   - All other members are passed on unchanged.
//
// If the client wants pcm as events, the edge requests events from an engine that supports them.
// Otherwise the edge omits stream_format and wraps the audio in events itself (see forward.Stream).
// The edge always wraps wav itself, because the events that engines send lack the wav file header.
//
// # Transcriptions
//
// Transcription reads the form's fields in the order in which they arrive, because the file is
// streamed and may be in any position. Transcription applies each rule once the fields that the
// rule needs have arrived. Finish applies the remaining rules.
//
//   - file and model are required exactly once. No other file is accepted.
//   - response_format is json, text, srt, verbose_json, vtt or, for engines that support it,
//     diarized_json, which the contract does not list, so a strict edge rejects it. The edge
//     requests json if the client does not specify a format.
//   - timestamp_granularities, with or without brackets, is word or segment. It may occur more than
//     once, but only with verbose_json. The edge always sends the name with brackets, because
//     engines expect that spelling.
//   - temperature must be at least 0. The engine checks the maximum.
//   - language and prompt are text.
//   - Empty optional fields count as absent, because web forms send them.
//   - known_speaker_references are data URLs, because an engine would fetch any other URL.
//   - stream is true or false.
//   - Unknown fields are passed on unchanged, because engines have their own options. Fields that
//     steer an engine are rejected.
package audio
