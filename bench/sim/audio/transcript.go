package audio

import (
	"math"
	"strings"

	"penstock/bench/sim/textgen"
)

// Line is one segment of a transcript.
type Line struct {
	Number     int // from 1
	Start, End float64
	Text       string
	Words      []Word
}

// Word is a word of a line with its times.
type Word struct {
	Start, End float64
	Text       string
}

// InventLines makes up a transcript: about two words per second, and a segment for every five
// seconds.
func InventLines(seed uint64, seconds float64) []Line {
	s := textgen.New(seed)
	var lines []Line
	for at := 0.0; at < seconds || len(lines) == 0; at += 5 {
		end := min(at+5, max(seconds, at+0.5))
		l := Line{Start: at, End: end}
		for range max(2, int(2*(end-at))) {
			l.Text += s.Next().Text
		}
		l.Text = strings.TrimSpace(strings.ReplaceAll(l.Text, "\n\n", ""))
		lines = append(lines, l)
		if len(lines) == 200 {
			break
		}
	}
	return lines
}

// Transcript is the transcript of an audio file.
type Transcript struct {
	Lines    []Line
	Seconds  float64
	Language string
	Words    bool // words have times, in verbose_json
	Whisper  bool // as in whisper.cpp's server: its blanks, its Content-Types, and always words

	// Derived values, filled in by Finish.
	Text         string
	Lead         string // before a line
	WholeSeconds int
}

// Count returns the number of spoken words.
func (t *Transcript) Count() int {
	n := 0
	for _, l := range t.Lines {
		n += len(strings.Fields(l.Text))
	}
	return n
}

// Finish fills in the derived values that templates need.
func (t *Transcript) Finish() {
	between, behind := " ", ""
	if t.Whisper {
		t.Lead, between, behind = " ", "\n", "\n"
	}
	if t.Language == "" || t.Language == "auto" {
		t.Language = "english"
	}
	t.WholeSeconds = int(math.Ceil(t.Seconds))
	all := make([]string, len(t.Lines))
	for i := range t.Lines {
		l := &t.Lines[i]
		l.Number, all[i] = i+1, t.Lead+l.Text
		ws := strings.Fields(l.Text)
		each := (l.End - l.Start) / float64(len(ws))
		l.Words = nil
		for j, w := range ws {
			l.Words = append(l.Words, Word{l.Start + float64(j)*each, l.Start + float64(j+1)*each, t.Lead + w})
		}
	}
	t.Text = strings.Join(all, between) + behind
}
