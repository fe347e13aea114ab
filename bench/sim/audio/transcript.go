package audio

import (
	"math"
	"strings"

	"penstock/bench/sim/textgen"
)

// Segment is a segment of a transcript, with its start and end in seconds.
type Segment struct {
	Number     int // counting from 1
	Start, End float64
	Text       string
	Words      []Word
}

// Word is a word in a line, with its start and end in seconds.
type Word struct {
	Start, End float64
	Text       string
}

// InventSegments makes up a transcript with about two words per second and a segment for every five
// seconds.
func InventSegments(seed uint64, seconds float64) []Segment {
	s := textgen.New(seed)
	var lines []Segment
	for at := 0.0; at < seconds || len(lines) == 0; at += 5 {
		end := min(at+5, max(seconds, at+0.5))
		l := Segment{Start: at, End: end}
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
	Lines    []Segment
	Seconds  float64
	Language string
	Words    bool // whether verbose_json lists the words and their times
	// Imitate whisper.cpp's server: its whitespace and Content-Types, and word times in every
	// verbose_json.
	Whisper bool

	// SetDerivedFields sets the following fields.
	Text         string
	Lead         string // whitespace before each line
	WholeSeconds int
}

// Count returns the number of words.
func (t *Transcript) Count() int {
	n := 0
	for _, l := range t.Lines {
		n += len(strings.Fields(l.Text))
	}
	return n
}

// SetDerivedFields computes the fields that templates need from the other fields.
func (t *Transcript) SetDerivedFields() {
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
