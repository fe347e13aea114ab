// Package audio is what a simulated engine hears and says: the form that a sound file comes in, the
// transcript that is made up for it, and sound that is as cheap as it can be.
//
// Nobody listens, so speech is a sine tone or silent MP3 frames, made word by word: a test counts
// bytes and pieces and looks at times. A transcript follows from a seed and the length of the file.
// Templates of package pages render it, with the blanks that tell whisper.cpp's server from the
// others.
//
// How fast a word is said or heard is the engine's part of the simulator.
package audio
