// Package audio implements what a simulated engine hears and says: the multipart form that carries
// a sound file, the made-up transcript, and the cheapest possible sound.
//
// No test listens, so speech is a sine tone or silent MP3 frames, made word by word: a test counts
// bytes and pieces and checks times. A transcript depends only on a seed and the length of the
// file. Package pages renders the transcript with templates, including the blanks that distinguish
// whisper.cpp's server from the others.
//
// Package sim decides how fast a word is spoken or heard.
package audio
