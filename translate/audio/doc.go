// Package audio holds the rules of the two audio endpoints: what a speech request and the form of a
// transcription may say, what is sent to the engine in their place, and what the answers are
// called.
//
// # Speech
//
// Speech is a JSON request. Beside the model, input must be a string with something in it, voice a
// string, speed between 0.25 and 4, response_format one of wav, mp3, flac, opus, pcm and aac (which
// is not the contract's, and refused under strict). Engines differ in what they make without a
// response_format, so wav is sent when the client names none. Everything else is passed on
// untouched, except a stream_format of sse: engines that have the events are asked for them where
// the client wants pcm, and the member is left out otherwise: the sound is put into events here
// then (see forward.Stream). Events of wav that engines make lack the header of the file. The
// member is not the contract's either.
//
// # Transcriptions
//
// Transcription takes the fields of the form in the order in which they come, because the file
// streams past and may stand anywhere: each rule is applied as soon as what it needs is there, the
// rest in End.
//
//   - file and model are required, once. No other file is taken.
//   - response_format is json, text, srt, verbose_json or vtt; json is sent when the client names
//     none.
//   - timestamp_granularities, with brackets or without, is word or segment, any number of times,
//     and only with verbose_json (both spellings go out with brackets, the one engines read).
//   - temperature is a number from 0 to 1. language and prompt are text. Empty optional fields
//     count as absent: web forms send them.
//   - known_speaker_references are data URLs: an engine would fetch any other.
//   - stream is true or false; whether the engine can do it is not for this package to know.
//   - Unknown fields are passed on untouched, like unknown members of a JSON request: engines have
//     options of their own. Those that would steer an engine are refused.
package audio
