// Package audio implements the audio of a simulated engine: the multipart form with an audio file,
// the made-up transcript, and the cheapest possible audio.
//
// No test listens, so speech is a sine tone or silent MP3 frames, made word by word. A test counts
// bytes and pieces and checks times. A transcript depends only on a seed and the length of the
// file. Package pages renders the transcript with templates, including the blanks that distinguish
// whisper.cpp's server from other engines.
//
// Package sim decides how fast a word is spoken or heard.
package audio
