// Package audio holds what a simulated engine hears and says: the form that carries a sound file,
// the made-up transcript, and the cheapest possible sound.
//
// No test listens, so speech is a sine tone or silent MP3 frames, made word by word: a test counts
// bytes and pieces and checks times. A transcript depends only on a seed and the length of the
// file. Templates of package pages render it, with the blanks that distinguish whisper.cpp's server
// from the others.
//
// The engine part of the simulator decides how fast a word is spoken or heard.
package audio
