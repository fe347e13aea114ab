// Package audio implements the audio formats of a simulated engine: multipart forms that contain an
// audio file, made-up transcripts, and synthetic audio.
//
// No test listens to the audio. Speech is therefore a sine tone or silent MP3 frames, which are
// cheap to produce. Tests check only times and the numbers of bytes and pieces. A transcript
// depends only on a seed and the length of the file. Package pages renders the transcript with
// templates. It also reproduces the whitespace that distinguishes whisper.cpp's server from other
// engines.
//
// Package sim determines the speed at which words are spoken or transcribed.
package audio
